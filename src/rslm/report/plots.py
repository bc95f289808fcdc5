"""Plots: each function takes a fitted model and optionally axes, and returns the axes.

Colours are those of Okabe and Ito, which colour-blind people can distinguish, in an order whose greys differ in print.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rslm.certificate.relaxation import amounts_by_iteration
from rslm.linalg.low_rank import singular_values
from rslm.runtime.types import Floats

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#E69F00", "#009E73", "#7F7F7F"
LEAST = 1e-16  # smallest value shown on a logarithmic axis
SPIKE = 5.0  # robust standard deviations above which a residual is drawn as a spike
SAME = 1e-9  # relative difference of two solver settings that is due to rounding; stages differ by far more


def plot_convergence(model: Any, ax: Any = None) -> Any:
    """The relative gradient after every iteration, and the distance of the objective to its final value.

    Continuation may solve other problems first: smaller C, a smoothed loss, softer bounds. Their objectives cannot be
    compared with the final one, so these iterations have a grey background, and their objective is not shown.

    Parameters
    ----------
    model : fitted estimator
        With at least one iteration: not a `HankelModel` of order 0, nor tasks without a part of low rank.
    ax : Matplotlib axes, optional
        Where to draw; new ones if None. They are returned.
    """
    history = model.history_
    if not history:
        raise ValueError(
            "the model has no iterations to show, because no low-rank problem was solved, as for a series of order "
            "0, see plot_series, or for tasks that a ridge predicts best, see task_part_"
        )
    ax = new_axes(ax)
    iterations, first = np.arange(len(history["objective"])), _first_of_last_objective(history)
    if first > 0:
        ax.axvspan(-0.5, first - 0.5, color=GREY, alpha=0.15, lw=0, label="continuation: another objective")
    with np.errstate(invalid="ignore", over="ignore"):  # the objective of a failed fit is not finite
        last = float(history["objective"][-1])
        above = _on_log_axis((history["objective"][first:] - last) / max(abs(last), np.finfo(float).tiny))
    if np.isfinite(above).any():  # not if the fit ended where it started
        ax.plot(iterations[first:], above, "o-", ms=3, color=BLUE, label="objective above its final value, relative")
    gradient = _on_log_axis(history["relative_gradient"])
    ax.plot(iterations, gradient, "s--", ms=3, color=ORANGE, label="relative gradient")
    ax.axhline(model.tol, color=GREY, lw=1, ls=":", label=f"tolerance {model.tol:g}")
    ax.set(xlabel="iteration", title=f"Ended: {model.outcome_}", yscale="log")
    ax.locator_params(axis="x", integer=True)
    ax.legend(frameon=False)
    return ax


def _first_of_last_objective(history: dict[str, Any]) -> int:
    """The index of the first record whose objective is the final one."""
    columns = [history["C"], *amounts_by_iteration(history["relaxations"]).values()]
    # A number that was computed for a stage may differ by rounding.
    same = [np.isclose(column, column[-1], rtol=SAME, atol=0.0, equal_nan=True) for column in columns]
    other = np.flatnonzero(~np.all(same, axis=0))
    return int(other[-1]) + 1 if len(other) else 0


def _on_log_axis(values: Floats) -> Floats:
    """The values, with NaN for those below the smallest one shown: zero must not look like a small number."""
    return np.where(values >= LEAST, values, np.nan)


def plot_spectrum(model: Any, ax: Any = None) -> Any:
    """The singular values of the learned matrix, of the coefficients of all tasks, or of the Hankel matrix of a series.

    Parameters
    ----------
    model : fitted estimator
    ax : Matplotlib axes, optional
        Where to draw; new ones if None. They are returned.
    """
    ax = new_axes(ax)
    if hasattr(model, "singular_values_"):
        values = np.asarray(model.singular_values_)
    elif hasattr(model, "coef_"):
        values = np.linalg.svd(model.coef_, compute_uv=False)
    else:
        values = singular_values(model.row_factors_, model.col_factors_)  # of the low-rank part, without effects
    values = values[values > LEAST * values.max(initial=0.0)]
    ax.set(xlabel="number", ylabel="singular value", title="Spectrum")
    if not len(values):
        ax.set(xticks=[], yticks=[])
        ax.text(0.5, 0.5, "rank 0: no low-rank part", ha="center", va="center", transform=ax.transAxes)
        return ax
    ax.plot(np.arange(1, len(values) + 1), values, "o-", ms=4, color=BLUE)
    if values.max() > 10.0 * values.min():
        ax.set_yscale("log")
    else:  # a logarithmic axis would have hardly a tick
        ax.set_ylim(0.0, 1.1 * values.max())
    ax.xaxis.get_major_locator().set_params(integer=True)
    return ax


def plot_residuals(model: Any, ax: Any = None) -> Any:
    """A histogram of the residuals, with the normal distribution of the same median and interquartile range.

    Parameters
    ----------
    model : fitted estimator of a matrix
        With `residuals_`: not one that was loaded from a file.
    ax : Matplotlib axes, optional
        Where to draw; new ones if None. They are returned.
    """
    ax = new_axes(ax)
    residual = np.asarray(model.residuals_.values, dtype=np.float64)
    low, middle, high = np.quantile(residual, [0.25, 0.5, 0.75])
    usual = max((high - low) / 1.349, np.finfo(float).tiny)  # standard deviation of that normal distribution
    edge = max(6.0 * usual, float(np.quantile(np.abs(residual), 0.999)))
    bins = np.linspace(-edge, edge, 80)
    ax.hist(np.clip(residual, -edge, edge), bins=bins, color=BLUE, alpha=0.7, label=f"{len(residual):,} entries")
    at = np.linspace(-edge, edge, 400)
    normal = np.exp(-0.5 * ((at - middle) / usual) ** 2) / (usual * np.sqrt(2 * np.pi))
    ax.plot(
        at, normal * len(residual) * (bins[1] - bins[0]), color=ORANGE, ls="--", label="normal, same median and IQR"
    )
    ax.set(xlabel="observed − learned", ylabel="entries", title="Residuals")
    ax.legend(frameon=False, loc="upper right")
    return ax


def plot_series(
    model: Any, y: ArrayLike, steps: int = 0, coverage: float | None = 0.9, ax: Any = None, *, log: bool = False
) -> Any:
    """The samples of one series, its signal, and a forecast with an interval.

    Parameters
    ----------
    model : fitted HankelModel
    y : array of shape (n,)
        The series that was fitted; with `log` the one whose logarithm was fitted.
    steps : int, default=0
        How many values to forecast.
    coverage : float or None, default=0.9
        The fraction of the next samples that the interval should cover, see `HankelModel.predict_interval`; None draws
        no interval.
    ax : Matplotlib axes, optional
        Where to draw; new ones if None. They are returned.
    log : bool, default=False
        Whether the model was fitted to the logarithm of y. The plot is in the units of y in any case; the forecast is
        then the median.
    """
    samples = np.asarray(y, dtype=np.float64)
    if samples.ndim != 1 or samples.shape != np.shape(model.signal_):
        raise ValueError(
            f"y must be the series of shape {np.shape(model.signal_)} that was fitted; got {samples.shape}"
        )
    if log and (samples <= 0).any():
        k = int(np.flatnonzero(samples <= 0)[0])
        raise ValueError(
            f"log=True needs y in its own units, all samples positive; sample {k + 1} is {samples[k]:g}. Give the "
            "series, not its logarithm"
        )
    ax = new_axes(ax)
    back = np.exp if log else np.asarray
    time, fitted = np.arange(len(samples)), np.log(samples) if log else samples
    spikes = (
        np.zeros(len(samples), dtype=bool)
        if getattr(model.loss_, "quadratic", False)
        else _spikes(fitted - model.signal_)
    )
    ax.plot(time[~spikes], samples[~spikes], ".", ms=4, color=GREY, label="samples")
    ax.plot(time, back(model.signal_), color=BLUE, lw=1.5, label="signal")
    if steps:
        ahead = back(model.forecast(steps))
        after = np.arange(len(samples), len(samples) + steps)
        ax.plot(after, ahead, color=ORANGE, ls="--", lw=1.5, label="forecast")
        if coverage is not None:
            lower, upper = (back(end) for end in model.predict_interval(steps, coverage))
            ax.fill_between(after, lower, upper, color=ORANGE, alpha=0.25, lw=0, label=f"{100 * coverage:g} % interval")
    if spikes.any():  # at the edge of the plot, if they would make everything else small
        lower, upper = ax.get_ylim()
        at = np.clip(samples[spikes], lower, upper)
        ax.plot(time[spikes], at, "x", ms=6, color=ORANGE, label=f"spikes, {spikes.sum()}", clip_on=False)
        ax.set_ylim(lower, upper)
    ax.set(xlabel="sample", title=f"Order {model.rank_}, noise {noise_in_words(model, log)}")
    ax.legend(frameon=False)
    return ax


def _spikes(residuals: Floats) -> NDArray[np.bool_]:
    """Which samples have residuals far above the usual size, 1.48 medians."""
    size = np.abs(residuals)
    return np.asarray(size > SPIKE * 1.4826 * float(np.nanmedian(size)))


def noise_in_words(model: Any, log: bool) -> str:
    """The noise of a series, as text; that of a logarithm is relative to the series, so in percent."""
    return f"about {100 * np.expm1(model.noise_):.2g} %" if log else f"{model.noise_:.3g}"


def plot_images(*images: ArrayLike, titles: Sequence[str] = ("given", "repaired"), axes: Any = None) -> Any:
    """Images side by side, such as one with missing pixels and the repaired one, in the same greys.

    Parameters
    ----------
    images : arrays of shape (rows, columns)
        NaN is missing, and shown in orange. The smallest and largest values of the first image are black and white.
    titles : sequence of str
        One per image.
    axes : array of Matplotlib axes, optional
        Where to draw, one per image; new ones in a row if None. They are returned.
    """
    if len(images) != len(titles):
        raise ValueError(f"{len(images)} images need as many titles; got {len(titles)}")
    if axes is None:
        width = 4 * len(images)
        _, axes = pyplot().subplots(1, len(images), figsize=(width, 4), layout="constrained", squeeze=False)
        axes = axes[0]
    greys = np.asarray(images[0], dtype=np.float64)
    low, high = float(np.nanmin(greys)), float(np.nanmax(greys))
    for ax, image, title in zip(np.ravel(axes), images, titles, strict=True):
        shown = np.ma.masked_invalid(np.asarray(image, dtype=np.float64))
        ax.imshow(shown, cmap="gray", vmin=low, vmax=high, interpolation="nearest")
        ax.set(title=title, xticks=[], yticks=[], facecolor=ORANGE)  # the background shows through missing pixels
    return axes


def figure(width: float = 6, height: float = 4, rows: int = 1, columns: int = 1) -> tuple[Any, Any]:
    """A new figure with axes that needs no display."""
    pyplot()
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # type: ignore[import-not-found, unused-ignore]
    from matplotlib.figure import Figure  # type: ignore[import-not-found, unused-ignore]

    made = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(made)
    return made, made.subplots(rows, columns)


def new_axes(ax: Any) -> Any:
    return pyplot().subplots(figsize=(6, 4), layout="constrained")[1] if ax is None else ax


def pyplot() -> Any:
    try:
        from matplotlib import pyplot as plt  # type: ignore[import-not-found, unused-ignore]
    except ModuleNotFoundError:
        raise ModuleNotFoundError('plots need one more package: pip install "rslm[plot]"') from None
    return plt
