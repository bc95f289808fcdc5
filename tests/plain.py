"""Completion as it is without effects and without anything to find: the problem that most tests are about."""

from typing import Any

from rslm import MatrixCompletion

PLAIN: dict[str, Any] = {"effects": None, "weighting": 0.0}
RIDGES = (2.0, 3.0)  # of effects in tests that are about them, too
WITH_EFFECTS: dict[str, Any] = {"effects": RIDGES, "weighting": 0.0, "scale": False}


def plain_completion(rank: int | None = None, C: float = 1e3, **options: Any) -> MatrixCompletion:
    """An estimator of C Σ loss(x_ij, w_ij) + ½ ‖W‖_*² alone, unless `options` say otherwise."""
    return MatrixCompletion(rank, C, **PLAIN | options)
