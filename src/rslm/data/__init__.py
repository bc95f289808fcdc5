"""Partially observed matrices, and how to split their entries."""

from rslm.data.convert import Duplicates
from rslm.data.files import Source, read_source
from rslm.data.labels import Labels
from rslm.data.observed import ObservedMatrix
from rslm.data.splits import Seed, as_generator, holdout

__all__ = ["Duplicates", "Labels", "ObservedMatrix", "Seed", "Source", "as_generator", "holdout", "read_source"]
