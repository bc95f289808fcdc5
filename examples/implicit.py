"""Clicks: what a model recommends, how much it finds at every rank, and how far it can be from the optimum.

`python examples/implicit.py` draws three panels to implicit.png; another name can be given. It takes a few seconds.
"""

import sys

import numpy as np
from matplotlib.figure import Figure
from scipy import sparse

from rslm import ImplicitCompletion
from rslm.evaluate import holdout_per_user, rank_factors, rank_items, recall_at_k

BLUE, ORANGE, GREY = "#0072B2", "#E69F00", "#7F7F7F"
RANKS = (1, 2, 4, 8, 16, 32, 64)
GROUPS = 10  # of items, by popularity
TOP = 20


def make_clicks(n_users, n_items, n_kinds=12, mean=25, seed=0):
    """Counts of users and items that are mixtures of a few kinds, where some items are far more popular than others."""
    rng = np.random.default_rng(seed)
    popularity = (np.arange(n_items) + 10.0) ** -0.8
    users, items = (rng.dirichlet(np.full(n_kinds, 0.15), n) for n in (n_users, n_items))
    rate = users @ items.T * popularity
    rate *= mean * rng.lognormal(0.0, 0.6, (n_users, 1)) / rate.sum(axis=1, keepdims=True)
    return sparse.csr_array(rng.poisson(rate))


def share_by_popularity(items, train):
    """The share of these items in every tenth of the catalogue, from what fewest users took to what most did."""
    group = np.empty(train.shape[1], dtype=np.int64)
    group[np.argsort(train.col_counts(), kind="stable")] = np.arange(train.shape[1]) * GROUPS // train.shape[1]
    return np.bincount(group[items[items >= 0]], minlength=GROUPS) / np.count_nonzero(items >= 0)


def main(picture="implicit.png", n_users=2000, n_items=600, ranks=RANKS):
    """Draw the picture, and return what it shows: shares by popularity, recalls and relative gaps."""
    train, held_out = holdout_per_user(make_clicks(n_users, n_items), 0.2, random_state=0)
    model = ImplicitCompletion(metric=f"recall@{TOP}", random_state=0).fit(train)  # finds its settings
    found = {"C": model.C_, "alpha0": model.alpha0_, "weighting": model.weighting_, "random_state": 0}
    limited = [ImplicitCompletion(rank=rank, **found).fit(train) for rank in ranks]

    best = rank_items(model, TOP)
    popular = rank_factors(np.ones((n_users, 1)), train.col_counts()[:, None], TOP, known=train)
    shares = {
        "held-out items": (share_by_popularity(held_out.index, train), GREY),
        f"first {TOP} of the model": (share_by_popularity(best.items, train), BLUE),
        f"first {TOP} by popularity": (share_by_popularity(popular.items, train), ORANGE),
    }
    recalls = [recall_at_k(rank_items(fitted, TOP), held_out) for fitted in limited]
    gaps = [max(fitted.certificate_.relative_gap, 1e-16) for fitted in limited]  # the axis is logarithmic
    print(
        f"rank {model.rank_}: recall@{TOP} {recall_at_k(best, held_out):.3f}, of the most popular items "
        f"{recall_at_k(popular, held_out):.3f}. {model.certificate_.verdict}"
    )

    figure = Figure(figsize=(13, 3.8), layout="constrained")
    bias, recall, gap = figure.subplots(1, 3)
    for at, (name, (share, colour)) in enumerate(shares.items()):
        bias.bar(np.arange(GROUPS) + 1 + 0.28 * (at - 1), share, 0.28, color=colour, label=name)
    bias.set(title="Popularity bias", xlabel="tenth of the items, 10 the most popular", ylabel="share")
    bias.set_xticks(range(1, GROUPS + 1))
    recall.plot(ranks, recalls, "o-", color=BLUE, label="model")
    recall.axhline(recall_at_k(popular, held_out), color=ORANGE, label="popularity")
    recall.set(title="What is found", xlabel="limit on the rank", ylabel=f"recall@{TOP}", ylim=(0, 1.1 * max(recalls)))
    gap.plot(ranks, gaps, "o-", color=BLUE, label="relative gap")
    gap.axhline(model.tol, color=GREY, ls=":", label=f"tolerance {model.tol:g}")
    gap.set(title="Certificate", xlabel="limit on the rank", ylabel="relative gap", yscale="log")
    for axes in (recall, gap):
        axes.set_xscale("log", base=2)
        axes.set_xticks(ranks, labels=map(str, ranks))
    for axes in (bias, recall, gap):
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(picture, dpi=100)
    return {name: share for name, (share, _) in shares.items()}, recalls, gaps


if __name__ == "__main__":
    main(*sys.argv[1:2])
