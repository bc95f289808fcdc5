"""Measurements: which linear functions of W are observed, with the values observed through them."""

from rslm.measurements.entries import Entries

__all__ = ["Entries"]
