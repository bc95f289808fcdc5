"""The inner solver for linear structure."""
