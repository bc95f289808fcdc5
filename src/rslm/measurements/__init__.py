"""Measurements: which linear functions of W are observed, with the values observed through them."""

from rslm.measurements.entries import Entries
from rslm.measurements.samples import Samples
from rslm.measurements.tasks import Tasks

__all__ = ["Entries", "Samples", "Tasks"]
