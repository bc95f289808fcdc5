"""Learn many related regressions

You have many regressions with few rows each, such as one for every school or patient. You get coefficients for each
that borrow strength from the others.
"""

# %%
# Forty tasks with 15 features are generated. Their coefficients are the sum of common ones and of a part in a subspace
# of two dimensions that all tasks share. The test has 50 new rows of every task.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import RidgeCV

from rslm import MultiTaskRegressor

rng = np.random.default_rng(0)
coefficients = rng.standard_normal(15) + rng.standard_normal((40, 2)) @ rng.standard_normal((2, 15))


def rows(n, seed):
    """n rows of every task: features, targets and labels of the tasks."""
    rng = np.random.default_rng(seed)
    tasks = np.repeat(np.arange(40), n)
    X = rng.standard_normal((len(tasks), 15))
    return X, (X * coefficients[tasks]).sum(axis=1) + rng.standard_normal(len(tasks)), tasks


X_test, y_test, of_test = rows(50, seed=1)

# %%
# The baselines are a ridge regression for every task, and one for all tasks.

counts = [6, 12, 24]
errors = {"one ridge for all": [], "a ridge for every task": [], "MultiTaskRegressor": []}
alphas = np.geomspace(1e-3, 1e3, 13)
for n in counts:
    X, y, tasks = rows(n, seed=2)
    pooled = RidgeCV(alphas).fit(X, y).predict(X_test)
    alone = np.empty(len(y_test))
    for task in range(40):
        alone[of_test == task] = (
            RidgeCV(alphas).fit(X[tasks == task], y[tasks == task]).predict(X_test[of_test == task])
        )
    related = MultiTaskRegressor(random_state=0).fit(X, y, tasks=tasks).predict(X_test, tasks=of_test)
    for name, guess in zip(errors, (pooled, alone, related), strict=True):
        errors[name].append(np.sqrt(np.mean((guess - y_test) ** 2)))
for name, found in errors.items():
    print(f"{name:23}", *(f"test RMSE {e:.2f} with {n} rows per task;" for e, n in zip(found, counts, strict=True)))

# %%
# Related regressions have a small error with far fewer rows per task. The noise has a standard deviation of 1.

figure, axes = plt.subplots(figsize=(6, 4))
for (name, found), style in zip(errors.items(), ["s:", "^--", "o-"], strict=True):
    axes.plot(counts, found, style, label=name, color="#0072B2" if style == "o-" else "#7F7F7F")
axes.axhline(1, color="#BFBFBF", lw=1, label="noise")
axes.set(xlabel="rows of every task", ylabel="test RMSE", ylim=(0, None), xticks=counts)
figure.legend(loc="outside upper center", ncols=2)
plt.show()
