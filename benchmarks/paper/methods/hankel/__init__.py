"""Methods of the study `hankel`."""
