"""Predict for new users by their features

You have ratings, and features of users and films. You get predictions for users without a single rating.
"""

# %%
# The ratings are generated. Most of a user's taste depends on features, such as age or occupation, and the rest is the
# user's own. Twenty of 100 users have no rating at all: they are the test.

import matplotlib.pyplot as plt
import numpy as np

from rslm import InductiveCompletion, MatrixCompletion

rng = np.random.default_rng(0)
users, films = rng.standard_normal((100, 5)), rng.standard_normal((40, 4))
by_features = users @ rng.standard_normal((5, 2)) @ rng.standard_normal((2, 4)) @ films.T
own = rng.standard_normal((100, 2)) @ rng.standard_normal((2, 40))
truth = 3.5 + 0.5 * rng.standard_normal(40) + 0.2 * by_features + 0.1 * own
seen = np.where(rng.random(truth.shape) < 0.3, truth + 0.3 * rng.standard_normal(truth.shape), np.nan)
new = np.arange(80, 100)
seen[new] = np.nan

# %%
# `InductiveCompletion` learns the effect of features from all users that have them. Without features, nothing is known
# of a new user: `MatrixCompletion` predicts the mean of every film.

with_features = InductiveCompletion(random_state=0).fit(seen, row_features=users, column_features=films)
without = MatrixCompletion(random_state=0).fit(seen[:80])
pairs = np.repeat(new, 40), np.tile(np.arange(40), 20)
predicted = with_features.predict(*pairs).reshape(20, 40)
mean_of_film = without.intercept_ + without.col_effects_
errors = [
    np.sqrt(np.mean((guess - truth[new]) ** 2))
    for guess in (seen[:80][~np.isnan(seen[:80])].mean(), mean_of_film, predicted)
]
for name, error in zip(["mean of all", "mean of the film", "InductiveCompletion"], errors, strict=True):
    print(f"{name:20} RMSE {error:.3f} for users without ratings")

# %%
# Predictions by features follow the true ratings of new users; means of films do not.

figure, (left, right) = plt.subplots(1, 2, figsize=(6, 3.4), sharex=True, sharey=True)
for axes, guess, name in (
    (left, np.tile(mean_of_film, (20, 1)), "mean of the film"),
    (right, predicted, "by features"),
):
    axes.plot(truth[new].ravel(), guess.ravel(), ".", ms=3, color="#0072B2", alpha=0.4)
    axes.axline((3.5, 3.5), slope=1, color="#7F7F7F", lw=1)
    axes.set(title=name, xlabel="true rating")
left.set_ylabel("prediction")
plt.show()
