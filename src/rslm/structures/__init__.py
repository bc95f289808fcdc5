"""Sets that the learned matrix lies in."""

from rslm.structures.box import Box
from rslm.structures.soft_box import Multipliers, SoftBox

__all__ = ["Box", "Multipliers", "SoftBox"]
