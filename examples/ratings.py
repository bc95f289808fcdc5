"""Predict ratings

You have some ratings of films by users. You get a prediction for every other pair of user and film, with an interval.
"""

# %%
# The ratings are generated: a mean, an effect of every user and every film, tastes of rank 3, and noise with a standard
# deviation of 0.5. No prediction can have a smaller error than the noise. A fifth of the ratings is held out.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from rslm import MatrixCompletion
from rslm.datasets import make_ratings
from rslm.evaluate import holdout, rmse

made = make_ratings(n_users=400, n_items=150, n_ratings=16_000, rank=3, noise=0.5, random_state=1)
train, test = holdout(made.data, 0.2, random_state=0)

# %%
# Nothing is set: `fit` holds out some training ratings and finds the rank, the regularisation `C` and the weighting.

model = MatrixCompletion(random_state=0).fit(train)
print(f"rank {model.rank_}, C {model.C_:.3g}, weighting {model.weighting_}")

# %%
# Two baselines: the mean of all ratings, and a ridge regression with an effect of every user and every film.

pairs, new_pairs = (np.column_stack([of.rows_of_entries(), of.index]) for of in (train, test))
effects = make_pipeline(OneHotEncoder(handle_unknown="ignore"), Ridge()).fit(pairs, train.values)
errors = {
    "mean": np.sqrt(np.mean((test.values - train.values.mean()) ** 2)),
    "effects of users\nand films": np.sqrt(np.mean((test.values - effects.predict(new_pairs)) ** 2)),
    "MatrixCompletion": rmse(model, test),
    "noise: nobody\ncan do better": made.noise_floor,
}
for name, error in errors.items():
    print(f"{' '.join(name.split()):30} held-out RMSE {error:.3f}")

# %%
# An interval says how far a rating may be from its prediction. About nine of ten held-out ratings should lie inside.

users, films = test.rows_of_entries(), test.index
lower, upper = model.predict_interval(users, films, coverage=0.9)
inside = (lower <= test.values) & (test.values <= upper)
print(f"{inside.mean():.1%} of the held-out ratings are inside their interval of 90 %")

# %%
# Predictions are much better than the baselines, and close to what the noise allows.

figure, axes = plt.subplots(figsize=(6, 3.2))
bars = axes.barh(list(errors), list(errors.values()), color=["#7F7F7F", "#7F7F7F", "#0072B2", "#E5E5E5"])
axes.bar_label(bars, fmt="%.2f", padding=4)
axes.invert_yaxis()
axes.set(xlabel="held-out RMSE in stars", xlim=(0, 1.15 * max(errors.values())))
plt.show()
