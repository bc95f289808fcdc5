"""Methods of the study `nonnegative`."""
