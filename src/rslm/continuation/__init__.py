"""Paths of easier problems that lead to the one that was asked for, each warm-started from the one before."""
