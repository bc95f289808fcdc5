"""What every room stands on: threads, Ctrl-C, the log, the version, types of arrays, magnitudes of numbers."""
