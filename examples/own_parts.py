"""Write your own loss and structure

You have a matrix with a rule of its own and errors of its own kind, which no ready-made model knows. You get a fit
that knows both, from two short classes.
"""

# %%
# A survey asks how 20 regions spend their budget on 30 products. The data are generated: spending has rank 2 and noise,
# 60 % of the entries are missing, and one in ten of the others is wrong. The total budget of every region is known from
# public accounts, so row i of the matrix must sum to `totals[i]`.

import matplotlib.pyplot as plt
import numpy as np
from extend.loss import LogCosh
from extend.structure import RowSums

from rslm import Problem, solve
from rslm.losses import Square
from rslm.measurements import Entries
from rslm.testing import check_loss, check_structure

rng = np.random.default_rng(0)
truth = rng.gamma(2.0, 1.0, (20, 2)) @ rng.gamma(2.0, 1.0, (2, 30))
totals = truth.sum(axis=1)
survey = truth + 0.3 * rng.standard_normal(truth.shape)
survey[rng.random(truth.shape) < 0.1] += 20
missing = rng.random(truth.shape) < 0.6
survey[missing] = np.nan

# %%
# `LogCosh` is a loss, and `RowSums` is a structure. Each is a class of about twenty lines outside the package:
# [extending](../extending.md) shows both. `rslm.testing` checks their derivatives and adjoints.

structure = RowSums(totals, 30)
check_loss(LogCosh())
check_structure(structure)

# %%
# The weight C of the data is chosen for each model by a fifth of the survey, with the median error, because some of
# these entries are wrong.


def complete(loss, structure, observed, C):
    """The completed matrix."""
    result = solve(Problem(loss, Entries(observed), structure, C=C), rank=2, random_state=0)
    return result.U @ result.V.T if structure is None else structure.whole_matrix(result.parameters)


validation = ~missing & (rng.random(truth.shape) < 0.2)
train = np.where(validation, np.nan, survey)
models = {
    "square loss": (Square(), None),
    "own loss": (LogCosh(), None),
    "own loss and structure": (LogCosh(), structure),
}
completed, errors = {}, {}
for name, parts in models.items():
    candidates = [1.0, 10.0, 100.0]
    off = [np.median(np.abs(complete(*parts, train, C) - survey)[validation]) for C in candidates]
    completed[name] = complete(*parts, survey, candidates[int(np.argmin(off))])
    errors[name] = np.sqrt(np.mean((completed[name] - truth)[missing] ** 2))
    wrong_totals = np.abs(completed[name].sum(axis=1) - totals).max()
    print(f"{name:23} RMSE {errors[name]:.2f} of missing entries, totals off by at most {wrong_totals:.1f}")
errors = {"mean of the product": np.sqrt(np.mean((np.nanmean(survey, axis=0) - truth)[missing] ** 2))} | errors
print(f"mean of the product     RMSE {errors['mean of the product']:.2f}")

# %%
# The own loss resists wrong entries, and the own structure adds what is known of the totals.

figure, axes = plt.subplots(figsize=(6, 3))
bars = axes.barh(list(errors), list(errors.values()), color=["#BFBFBF", "#7F7F7F", "#56B4E9", "#0072B2"])
axes.bar_label(bars, fmt="%.2f", padding=4)
axes.invert_yaxis()
axes.set(xlabel="RMSE of missing entries", xlim=(0, 1.15 * max(errors.values())))
plt.show()
