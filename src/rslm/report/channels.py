"""Any series as `plot_series` draws one: a channel of several, the real or the imaginary part of a complex one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rslm.report.plots import plot_series
from rslm.runtime.types import Floats

MOST = 6  # channels in one figure
PARTS = ("real", "imaginary")


@dataclass(frozen=True)
class Channel:
    """What `plot_series` asks of a model, for one real channel."""

    model: Any
    taken: Callable[[NDArray[Any]], Floats]  #: from an array of the shape of the series
    noise_: float
    known: bool  #: whether there are samples

    @property
    def signal_(self) -> Floats:
        return self.taken(self.model.signal_)

    @property
    def rank_(self) -> int:
        return int(self.model.rank_)

    @property
    def loss_(self) -> Any:
        return self.model.loss_ if self.known else SimpleNamespace(quadratic=True)  # without samples, no spikes

    def forecast(self, steps: int) -> Floats:
        return self.taken(self.model.forecast(steps))

    def predict_interval(self, steps: int, coverage: float) -> tuple[Floats, Floats]:
        lower, upper = self.model.predict_interval(steps, coverage)
        return self.taken(lower), self.taken(upper)


def channel_count(model: Any) -> int:
    """How many real series a fitted one is drawn as."""
    return int(min(MOST, _channels(model) * (2 if np.iscomplexobj(model.signal_) else 1)))


def plot_signal(
    model: Any, channel: int = 0, steps: int = 0, coverage: float | None = 0.9, ax: Any = None, *, log: bool = False
) -> Any:
    """The samples that a series was fitted to, its signal, and a forecast with an interval.

    Parameters
    ----------
    model : fitted HankelModel
        If it was loaded from a file, there are no samples.
    channel : int, default=0
        Of several; of a complex series, the real parts come first.
    steps : int, default=0
        How many values to forecast.
    coverage : float or None, default=0.9
        The fraction of the next samples that the interval should cover; None draws no interval.
    ax : Matplotlib axes, optional
        Where to draw; new ones if None. They are returned.
    log : bool, default=False
        Whether the model was fitted to the logarithm of a series, which is then drawn in its own units.
    """
    complex_, of = np.iscomplexobj(model.signal_), _channels(model)
    if not 0 <= channel < of * (2 if complex_ else 1):
        raise ValueError(f"channel must be at least 0 and below {of * (2 if complex_ else 1)}; got {channel}")
    number, part = channel % of, channel // of

    def taken(values: NDArray[Any]) -> Floats:
        column = values if values.ndim == 1 else values[:, number]
        return np.asarray(column.imag if part else column.real, dtype=np.float64)

    known = hasattr(model, "residuals_")
    one = Channel(model, taken, float(np.atleast_1d(model.channel_noise_)[number]), known)
    samples = taken(model.signal_ + model.residuals_) if known else np.full(len(model.signal_), np.nan)
    ax = plot_series(one, np.exp(samples) if log else samples, steps, None if complex_ else coverage, ax, log=log)
    names = ([f"channel {number + 1}"] if of > 1 else []) + ([f"{PARTS[part]} part"] if complex_ else [])
    if names:
        ax.set_title(f"{ax.get_title()}; {', '.join(names)}")
    return ax


def _channels(model: Any) -> int:
    return 1 if model.signal_.ndim == 1 else int(model.signal_.shape[1])
