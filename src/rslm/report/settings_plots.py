"""Plots of what was found automatically: the settings that were tried, and the effects of rows and columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from rslm.report.plots import BLUE, GREEN, GREY, ORANGE, new_axes

MOST_LINES = 6  # ranks with a line of their own
MARKERS = ("o", "s", "^", "D")
STYLES = ("-", "--", ":", "-.")
ROOM = 0.15  # above and below the errors, relative to their range
FAR = 3.0  # the baselines are drawn if they are at most this many ranges above the errors


def plot_path(model: Any, ax: Any = None) -> Any:
    """The errors of held-out entries for all settings that were tried: against C, with one line for every rank.

    If there are too many ranks to distinguish, only the found rank and some others have lines. Errors of
    the mean and of effects alone are horizontal lines, if they are near enough.

    Of an ImplicitCompletion, the metric of held-out items for all settings in the order in which they were tried, with
    that of the most popular items as a horizontal line.

    Parameters
    ----------
    model : fitted MatrixCompletion, InductiveCompletion or ImplicitCompletion
        With a `path_`: at least one setting was "auto".
    ax : Matplotlib axes, optional
        Where to draw; new ones if None. They are returned.
    """
    path = model.path_
    if path is None:
        raise ValueError(
            "the model has no path to show: its settings were given, or there were too few entries to hold some out"
        )
    if "weighting" not in path:
        raise TypeError(
            f"only the path of a completion can be drawn; path_ of {type(model).__name__} is a table with "
            f"{', '.join(path)}"
        )
    if "score" in path:
        return _plot_scores(model, new_axes(ax))
    ax = new_axes(ax)
    found = _found(model)
    best = int(np.argmin(path["error"])) if found is None else found
    shown = _shown_ranks(path["rank"].astype(int), int(path["rank"][best]))
    weightings = np.unique(path["weighting"])
    for k, rank in enumerate(shown):
        chosen = rank == int(path["rank"][best])
        colour = BLUE if chosen else str(0.75 - 0.5 * k / max(len(shown) - 1, 1))  # a grey
        width, marker, label = (2.0, "o", f"rank {rank}") if chosen else (1.0, ".", f"rank {rank}")
        for weighting, style in zip(weightings, STYLES, strict=False):
            at = np.flatnonzero((path["rank"] == rank) & (path["weighting"] == weighting))
            at = at[np.argsort(path["error"][at])]
            at = at[np.unique(path["C"][at], return_index=True)[1]]  # of those that differ in more than C, the best one
            if len(at):
                line = {"marker": marker, "ms": 4, "lw": width, "color": colour, "label": label}
                ax.plot(path["C"][at], path["error"][at], style, **line)
                label = "_"  # one entry of the legend for every rank
    for weighting, style in zip(weightings if len(weightings) > 1 else (), STYLES, strict=False):
        ax.plot([], [], style, color=GREY, label=f"weighting {weighting:g}")
    if found is not None:
        ax.plot(path["C"][found], path["error"][found], "*", ms=14, color=ORANGE, label="found", zorder=5)
    low, high = float(path["error"].min()), float(np.quantile(path["error"], 0.95))
    reach = max(high - low, 1e-3 * abs(low))
    guesses = {"effects": ("effects alone", GREEN), "mean": ("the mean", GREY)}
    for name, (words, colour) in guesses.items():
        level = model.held_out_[name]
        if name == "effects" and model.effects is None:
            continue
        if low - FAR * reach <= level <= high + FAR * reach:
            ax.axhline(level, color=colour, lw=1.2, ls=(0, (5, 3)), label=words)
            low, high = min(low, level), max(high, level)
    room = ROOM * max(high - low, 1e-3 * abs(low))
    ax.set(xscale="log", xlabel="C", ylabel="error of held-out entries", ylim=(low - room, high + room))
    ax.set_title(f"{len(path['C'])} settings tried" + ("" if model.rank_ else ": effects alone are as good"))
    ax.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return ax


def _plot_scores(model: Any, ax: Any) -> Any:
    path, number = model.path_, np.arange(1, len(model.path_["C"]) + 1)
    ranks = np.unique(path["rank"].astype(int))
    for k, rank in enumerate(ranks):
        at = path["rank"] == rank
        colour = str(0.7 - 0.6 * k / max(len(ranks) - 1, 1))  # a grey
        ax.plot(number[at], path["score"][at], MARKERS[k % len(MARKERS)], ms=5, color=colour, label=f"rank {rank}")
    ax.step(number, np.maximum.accumulate(path["score"]), where="post", color=BLUE, lw=1.2, label="best so far")
    best = int(np.argmin(np.abs(path["score"] - model.held_out_["model"])))
    ax.plot(number[best], path["score"][best], "*", ms=14, color=ORANGE, label="found", zorder=5)
    ax.axhline(model.held_out_["popularity"], color=GREEN, lw=1.2, ls=(0, (5, 3)), label="popularity")
    ax.set(xlabel="trial", ylabel=f"{model.metric} of held-out items", title=f"{len(number)} settings tried")
    ax.locator_params(axis="x", integer=True)
    ax.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return ax


def _found(model: Any) -> int | None:
    """Which of the settings that were tried was used in the end; None if effects alone were."""
    path = model.path_
    same = np.isclose(path["C"], model.C_) & (path["weighting"] == model.weighting_)
    if model.rank_ == 0 or not same.any():
        return None
    return int(np.argmin(np.where(same, np.abs(path["error"] - model.held_out_["model"]), np.inf)))


def _shown_ranks(ranks: Any, best: int) -> list[int]:
    """All ranks, or the best one and some others, evenly among those that were tried."""
    each = np.unique(ranks)
    if len(each) > MOST_LINES:
        some = each[np.linspace(0, len(each) - 1, MOST_LINES - 1).round().astype(int)]
        each = np.unique(np.append(some, best))
    return [int(rank) for rank in each]


def plot_effects(model: Any, ax: Any = None) -> Any:
    """Histograms of the row and the column effects.

    Parameters
    ----------
    model : fitted MatrixCompletion
    ax : Matplotlib axes, optional
        Where to draw; new ones if None. They are returned.
    """
    ax = new_axes(ax)
    sides = {"rows": (model.row_effects_, BLUE, "-"), "columns": (model.col_effects_, ORANGE, "--")}
    sides = {name: side for name, side in sides.items() if np.any(side[0])}
    if not sides:
        raise ValueError("the model has no effects to show: it was fitted without them, or they are all 0")
    every = np.concatenate([values for values, _, _ in sides.values()])
    bins = np.histogram_bin_edges(every, bins=min(50, max(10, len(every) // 10)))
    for name, (values, colour, style) in sides.items():
        share = np.full(len(values), 100.0 / len(values))
        label = f"{len(values):,} {name}, standard deviation {np.std(values):.3g}"
        ax.hist(values, bins, weights=share, color=colour, histtype="step", lw=1.8, ls=style, label=label)
    ax.set(xlabel="effect", ylabel="per cent", title=f"Effects around the mean {model.intercept_:.4g}")
    ax.margins(y=0.25)  # room for the legend
    ax.legend(frameon=False, loc="upper left", fontsize="small")
    return ax
