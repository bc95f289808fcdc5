"""Sets that the learned matrix lies in, and penalties on it."""

from rslm.structures.affine import Affine
from rslm.structures.base import Structure
from rslm.structures.box import Box
from rslm.structures.free import Free
from rslm.structures.hankel import Hankel
from rslm.structures.linear import Linear, LinearStructure
from rslm.structures.penalty import Penalty
from rslm.structures.smooth import Smooth
from rslm.structures.smoothed import Smoothed
from rslm.structures.soft_box import Multipliers, SoftBox
from rslm.structures.symmetric import Symmetric
from rslm.structures.toeplitz import Toeplitz
from rslm.structures.weighted import WeightedStructure

__all__ = [
    "Affine",
    "Box",
    "Free",
    "Hankel",
    "Linear",
    "LinearStructure",
    "Multipliers",
    "Penalty",
    "Smooth",
    "Smoothed",
    "SoftBox",
    "Structure",
    "Symmetric",
    "Toeplitz",
    "WeightedStructure",
]
