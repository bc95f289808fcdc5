"""Methods of the study `robust`."""
