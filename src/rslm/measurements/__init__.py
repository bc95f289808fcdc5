"""Measurements: which linear functions of W are observed, with the values observed through them."""

from rslm.measurements.all_entries import AllEntries
from rslm.measurements.base import Measurement
from rslm.measurements.bilinear import Bilinear
from rslm.measurements.entries import Entries
from rslm.measurements.samples import Samples
from rslm.measurements.side import Side
from rslm.measurements.tasks import Tasks

__all__ = ["AllEntries", "Bilinear", "Entries", "Measurement", "Samples", "Side", "Tasks"]
