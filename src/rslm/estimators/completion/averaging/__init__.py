"""Posterior averaging of a completed matrix: draws from the fitted point on, and predictions that are their means."""

from rslm.estimators.completion.averaging.averaging import Averaging, check_average

__all__ = ["Averaging", "check_average"]
