"""Solvers of the inner problem: given U, the best V and the dual variables."""
