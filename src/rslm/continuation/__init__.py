"""Paths of easier problems that lead to the given problem; each stage is warm-started from the one before."""
