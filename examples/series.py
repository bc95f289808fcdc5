"""A series: visitors of a museum by month, its trend and seasons, and the next two years.

`python examples/series.py` draws two panels to components.png; another name can be given. It takes a few seconds.
"""

import sys

import numpy as np
from matplotlib.figure import Figure

from rslm import HankelModel
from rslm.report import plot_components, plot_series

STEPS = 24


def make_visitors(months=168, seed=0):
    """Growth, two seasons, a new wing whose novelty wears off, and noise that is not white."""
    rng, t = np.random.default_rng(seed), np.arange(months)
    clean = 100 + 0.4 * t + 12 * np.cos(2 * np.pi * t / 12 + 1) + 5 * np.cos(2 * np.pi * t / 4) + 30 * 0.9**t
    noise = np.zeros(months)
    for k in range(1, months):
        noise[k] = 0.6 * noise[k - 1] + 1.5 * rng.standard_normal()
    return clean, clean + noise


def main(picture="components.png"):
    """Draw the picture, and return the model, the months that were held back, and how many are in the interval."""
    _, visitors = make_visitors()
    known, later = visitors[:-STEPS], visitors[-STEPS:]
    model = HankelModel().fit(known)
    lower, upper = model.predict_interval(STEPS)
    inside = int(((lower < later) & (later < upper)).sum())
    print(*model.components_, f"{inside} of {STEPS} months are inside the interval of 90 %", sep="\n")
    figure = Figure(figsize=(11, 4), layout="constrained")
    series, parts = figure.subplots(1, 2)
    plot_series(model, known, STEPS, ax=series)
    series.plot(np.arange(len(known), len(visitors)), later, "x", ms=4, color="#009E73", label="held back")
    series.legend(frameon=False, loc="upper left", ncols=2)
    plot_components(model, ax=parts)
    for axes in (series, parts):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(picture, dpi=100)
    return model, later, inside


if __name__ == "__main__":
    main(*sys.argv[1:2])
