"""Data on disk in the form that a fit wants: arrays that are mapped into memory, not read."""
