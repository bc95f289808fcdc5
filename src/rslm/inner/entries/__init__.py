"""Inner solvers for observed entries."""
