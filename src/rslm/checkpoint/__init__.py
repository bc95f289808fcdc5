"""Files that a fit goes on from."""
