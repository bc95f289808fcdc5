"""Predict many targets at once

You have rows with features and many targets, some of which are missing. You get one regression for all targets, with
coefficients of low rank.
"""

# %%
# The data are generated: 25 features, 30 targets, and coefficients of rank 3, as if three hidden quantities drove all
# targets. There are 60 training rows, and a quarter of their targets is missing.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import RidgeCV

from rslm import ReducedRankRegressor

rng = np.random.default_rng(0)
coefficients = rng.standard_normal((30, 3)) @ rng.standard_normal((3, 25)) / np.sqrt(3)
X, X_test = rng.standard_normal((60, 25)), rng.standard_normal((500, 25))
Y = X @ coefficients.T + 3 * rng.standard_normal((60, 30))
Y[rng.random(Y.shape) < 0.25] = np.nan
Y_test = X_test @ coefficients.T + 3 * rng.standard_normal((500, 30))

# %%
# The baseline is a ridge regression for every target, with the strength found by cross-validation.

model = ReducedRankRegressor(random_state=0).fit(X, Y)
predicted = model.predict(X_test)
alone = np.empty(Y_test.shape)
for k, target in enumerate(Y.T):
    known = ~np.isnan(target)
    alone[:, k] = RidgeCV(np.geomspace(1e-2, 1e4, 13)).fit(X[known], target[known]).predict(X_test)
error, error_alone = (np.sqrt(np.mean((guess - Y_test) ** 2, axis=0)) for guess in (predicted, alone))
print(f"rank {model.rank_} was found")
print(f"test RMSE: {error.mean():.2f}, a ridge for every target {error_alone.mean():.2f}; the noise is 3")

# %%
# Each dot is a target. Below the line, `ReducedRankRegressor` has the smaller error.

figure, axes = plt.subplots(figsize=(6, 4.6))
axes.plot(error_alone, error, "o", color="#0072B2", alpha=0.7)
axes.axline((4, 4), slope=1, color="#7F7F7F", lw=1, label="equal errors")
limits = (0.95 * min(error.min(), error_alone.min()), 1.05 * max(error.max(), error_alone.max()))
axes.set(
    xlabel="test RMSE of a ridge for every target", ylabel="test RMSE of ReducedRankRegressor", xlim=limits, ylim=limits
)
axes.legend(loc="upper left")
plt.show()
