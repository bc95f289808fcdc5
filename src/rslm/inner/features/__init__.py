"""Inner solvers for tasks and for side information."""
