"""Location: mean, row effects, column effects and covariates, which are added to the predictions of W."""

from rslm.location.location import Effects, Location

__all__ = ["Effects", "Location"]
