"""Losses: how far a prediction is from an observation. One file each; pass an instance."""

from rslm.losses.base import Loss
from rslm.losses.square import Square

__all__ = ["Loss", "Square"]
