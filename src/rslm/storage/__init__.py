"""Atomic file writes, and a container format for arrays that is checked when it is read."""
