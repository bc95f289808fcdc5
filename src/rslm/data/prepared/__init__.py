"""Prepared data: arrays on disk that a fit maps into memory instead of reading them."""
