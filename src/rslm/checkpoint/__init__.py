"""Files from which an interrupted fit continues."""
