"""Recommendations from what people took: clicks, plays, purchases."""

from rslm.estimators.implicit.implicit_completion import ImplicitCompletion

__all__ = ["ImplicitCompletion"]
