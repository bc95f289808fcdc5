"""Linear models of several tasks in a common subspace of the features."""
