"""Recommend from clicks

You have counts of what users clicked, played or bought, and no ratings. You get a list of recommendations for every
user, and you see how much the lists depend on popularity.
"""

# %%
# The clicks are generated: users and items are mixtures of twelve kinds, and some items are far more popular than
# others. A fifth of the items of every user is held out.

import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse

from rslm import ImplicitCompletion
from rslm.evaluate import holdout_per_user, rank_factors, rank_items, recall_at_k

rng = np.random.default_rng(0)
n_users, n_items, n_kinds, top = 800, 300, 12, 20
popularity = (np.arange(n_items) + 10.0) ** -0.8
of_users, of_items = (rng.dirichlet(np.full(n_kinds, 0.15), n) for n in (n_users, n_items))
rate = of_users @ of_items.T * popularity
rate *= 25 * rng.lognormal(0.0, 0.6, (n_users, 1)) / rate.sum(axis=1, keepdims=True)
train, held_out = holdout_per_user(sparse.csr_array(rng.poisson(rate)), 0.2, random_state=0)

# %%
# The settings are found with held-out training items. The baseline recommends to everyone what most users took.

model = ImplicitCompletion(metric=f"recall@{top}", random_state=0).fit(train)
best = rank_items(model, top)
popular = rank_factors(np.ones((n_users, 1)), train.col_counts()[:, None], top, known=train)
recall, recall_of_popular = (recall_at_k(lists, held_out) for lists in (best, popular))
print(f"model, rank {model.rank_}: recall@{top} {recall:.3f}")
print(f"the most popular items: recall@{top} {recall_of_popular:.3f}")

# %%
# How much does the limit on the rank matter? With the settings found above, fit several of them. The relative gap of
# the certificate compares with matrices of any rank.

ranks = [1, 2, 4, 8, 16, 32, 64]
found = {"C": model.C_, "alpha0": model.alpha0_, "weighting": model.weighting_, "random_state": 0}
limited = [ImplicitCompletion(rank=rank, **found).fit(train) for rank in ranks]
recalls = [recall_at_k(rank_items(fitted, top), held_out) for fitted in limited]
gaps = [max(fitted.certificate_.relative_gap, 1e-16) for fitted in limited]  # the axis is logarithmic

# %%
# Popular items are a safe guess, so lists contain more of them than people take.


def share_by_popularity(items):
    """The share of these items in every tenth of the catalogue, the most popular items last."""
    group = np.empty(n_items, dtype=int)
    group[np.argsort(train.col_counts(), kind="stable")] = np.arange(n_items) * 10 // n_items
    return np.bincount(group[items[items >= 0]], minlength=10) / np.count_nonzero(items >= 0)


shares = {
    "held-out items": share_by_popularity(held_out.index),
    f"first {top} of the model": share_by_popularity(best.items),
    f"first {top} by popularity": share_by_popularity(popular.items),
}
for name, share in shares.items():
    print(f"{name:22} {share[-1]:.0%} from the most popular tenth")

# %%
# The model finds more held-out items than popularity does, and its lists are less biased. A rank of 16 is enough; the
# certificate closes from the rank on at which the limit no longer binds.

figure, (bias, found_items, gap) = plt.subplots(3, 1, figsize=(6, 9))
for at, ((name, share), colour) in enumerate(zip(shares.items(), ["#7F7F7F", "#0072B2", "#E69F00"], strict=True)):
    bias.bar(np.arange(1, 11) + 0.28 * (at - 1), share, 0.28, color=colour, label=name)
bias.set(title="Popularity bias", xlabel="tenth of the items, 10 is the most popular", ylabel="share")
bias.set_xticks(range(1, 11))
found_items.plot(ranks, recalls, "o-", color="#0072B2", label="model")
found_items.axhline(recall_of_popular, color="#E69F00", label="popularity")
found_items.set(title="What is found", xlabel="limit on the rank", ylabel=f"recall@{top}", ylim=(0, 1.1 * max(recalls)))
gap.plot(ranks, gaps, "o-", color="#0072B2", label="relative gap")
gap.axhline(model.tol, color="#7F7F7F", ls=":", label=f"tolerance {model.tol:g}")
gap.set(title="Certificate", xlabel="limit on the rank", ylabel="relative gap", yscale="log")
for axes in (found_items, gap):
    axes.set_xscale("log", base=2)
    axes.set_xticks(ranks, labels=map(str, ranks))
for axes in (bias, found_items, gap):
    axes.legend()
plt.show()
