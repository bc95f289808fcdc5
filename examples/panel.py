"""A panel: a law that some states pass in different years, its effect, and what would have been without it.

`python examples/panel.py` draws two panels to panel.png; another name can be given. It takes a few seconds.
"""

import sys

import numpy as np
from matplotlib.figure import Figure

from rslm import PanelCompletion
from rslm.report import plot_counterfactual, plot_event_study

EFFECT = -12.0  # packs per head and year, from the third year of the law on


def make_states(n_states=39, n_years=31, n_laws=8, seed=0):
    """Sales of states over years: the law is passed where sales fall anyway, so a plain comparison misleads."""
    rng = np.random.default_rng(seed)
    years = np.arange(n_years)
    taste = np.sort(rng.standard_normal(n_states))[::-1]  # states that turn away from smoking pass the law
    decline = -0.06 * np.maximum(years - 8, 0) ** 1.5
    sales = 120 + 12 * rng.standard_normal((n_states, 1)) + np.outer(3.0 + taste, decline)
    sales += 2.0 * rng.standard_normal((n_states, n_years))
    law = np.zeros((n_states, n_years), dtype=bool)
    for state, first in enumerate(rng.integers(18, 25, n_laws)):
        law[state, first:] = True
    since = np.cumsum(law, axis=1)
    return sales + EFFECT * np.minimum(since / 3.0, 1.0), law, EFFECT * np.minimum(since / 3.0, 1.0)[law].mean()


def main(picture="panel.png", n_refits=200):
    """Draw the picture, and return the effect, its interval, the true one, and difference-in-differences."""
    sales, law, true = make_states()
    model = PanelCompletion(n_refits=n_refits, random_state=0).fit(sales, law)
    plain = PanelCompletion(rank=0, C=model.C_, inference=None, pre_periods=0).fit(sales, law).att_
    low, high = model.att_interval_
    print(
        f"effect {model.att_:.2f}, 95 % interval {low:.2f} to {high:.2f}; true {true:.2f}; "
        f"difference-in-differences {plain:.2f}. {model.certificate_.verdict}"
    )
    figure = Figure(figsize=(11, 4), layout="constrained")
    study, states = figure.subplots(1, 2)
    plot_event_study(model, study)
    plot_counterfactual(model, ax=states)
    for axes in (study, states):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(picture, dpi=100)
    return model.att_, (low, high), true, plain


if __name__ == "__main__":
    main(*sys.argv[1:2])
