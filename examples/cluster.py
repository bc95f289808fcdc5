"""Fit on a Dask cluster

You have more ratings than one computer can handle, and a Dask cluster. You get the same model as from one computer.
"""

# %%
# The cluster here is small and runs in this process, so that the example works anywhere. For a real one, give the
# address of its scheduler: `Client("tcp://scheduler:8786")`. The ratings are generated.

import matplotlib.pyplot as plt
import numpy as np
from distributed import Client

from rslm import MatrixCompletion
from rslm.datasets import make_ratings
from rslm.evaluate import holdout, rmse

made = make_ratings(n_users=500, n_items=100, n_ratings=20_000, rank=3, noise=0.5, random_state=1)
train, test = holdout(made.data, 0.1, random_state=0)
settings = {"rank": 3, "C": 60.0, "effects": None, "weighting": 0.5, "random_state": 0}

# %%
# The users are divided among the workers, with about the same number of ratings each. Only small arrays travel: one
# number for every item and factor.

here = MatrixCompletion(**settings).fit(train)
with Client(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as client:
    there = MatrixCompletion(**settings).fit(train, client=client)
difference = abs(there.certificate_.primal - here.certificate_.primal) / here.certificate_.primal
mean = np.sqrt(np.mean((test.values - train.values.mean()) ** 2))
print(f"held-out RMSE {rmse(there, test):.4f} on the cluster, {rmse(here, test):.4f} in one process, mean {mean:.4f}")
print(f"relative difference of the two objectives: {difference:.1e}")

# %%
# Both fits take the same steps to the same answer.

figure, axes = plt.subplots(figsize=(6, 4))
for name, model, style in (("one process", here, "o-"), ("cluster of two workers", there, "x--")):
    gradient = model.history_["relative_gradient"]
    axes.plot(
        np.arange(len(gradient)),
        gradient,
        style,
        ms=8 if style == "o-" else 6,
        label=name,
        color="#BFBFBF" if style == "o-" else "#0072B2",
    )
axes.axhline(there.tol, color="#7F7F7F", lw=1, ls=":", label=f"tolerance {there.tol:g}")
axes.set(xlabel="iteration", ylabel="relative gradient", yscale="log")
axes.legend()
plt.show()
