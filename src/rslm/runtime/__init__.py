"""What all other packages may use: threads, Ctrl-C, the log, the version, array types, magnitudes of numbers."""
