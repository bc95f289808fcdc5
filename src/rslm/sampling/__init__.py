"""Gibbs sampling of the posterior of a factorised matrix: arrays in, draws out."""

from rslm.sampling.chain import Chain, State
from rslm.sampling.coefficients import Coefficients
from rslm.sampling.conditional import Conditional, Entries
from rslm.sampling.prior import Hyperprior, NormalPrior
from rslm.sampling.start import balanced

__all__ = ["Chain", "Coefficients", "Conditional", "Entries", "Hyperprior", "NormalPrior", "State", "balanced"]
