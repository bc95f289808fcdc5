"""Files: they appear whole or not at all, and say what they are."""
