"""Series that are sums of exponentials Σ a_j z_j^t: their Hankel matrices have low rank."""

from rslm.estimators.series.hankel_model import HankelModel

__all__ = ["HankelModel"]
