"""Losses: the cost of a prediction for an observed target. One file each; pass an instance."""

from rslm.losses.absolute import Absolute
from rslm.losses.base import Loss
from rslm.losses.box_dual import BoxDual
from rslm.losses.epsilon_insensitive import EpsilonInsensitive
from rslm.losses.hinge import Hinge
from rslm.losses.huber import Huber
from rslm.losses.interval import Interval
from rslm.losses.logistic import Logistic
from rslm.losses.quantile import Quantile
from rslm.losses.square import Square
from rslm.losses.squared_hinge import SquaredHinge

#: Losses that can be given by name, with their default parameters.
BY_NAME: dict[str, type[Loss]] = {
    "square": Square,
    "absolute": Absolute,
    "epsilon_insensitive": EpsilonInsensitive,
    "huber": Huber,
    "quantile": Quantile,
    "logistic": Logistic,
    "hinge": Hinge,
    "squared_hinge": SquaredHinge,
}

__all__ = [
    "BY_NAME",
    "Absolute",
    "BoxDual",
    "EpsilonInsensitive",
    "Hinge",
    "Huber",
    "Interval",
    "Logistic",
    "Loss",
    "Quantile",
    "Square",
    "SquaredHinge",
]
