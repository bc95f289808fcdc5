"""Measurements: which linear functions of W are observed, with the values observed through them."""

from rslm.measurements.entries import Entries
from rslm.measurements.samples import Samples

__all__ = ["Entries", "Samples"]
