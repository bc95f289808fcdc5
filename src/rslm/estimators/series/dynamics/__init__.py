"""How a series evolves: exponentials that are corrected by one-step errors, in autoregressive noise."""

from rslm.estimators.series.dynamics.model import Dynamics, fit_dynamics

__all__ = ["Dynamics", "fit_dynamics"]
