"""Repair an image

You have an image with lost pixels, and some of the others are wrong. You get the whole image, and you see which pixels
were wrong.
"""

# %%
# The image is every other pixel of a photograph that comes with scikit-learn, in grey from 0 to 1. Four pixels in ten
# are lost, and of the others one in ten is black or white.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from rslm import MatrixCompletion

image = load_sample_image("flower.jpg").mean(axis=2)[::2, ::2] / 255
rng = np.random.default_rng(0)
lost, wrong = rng.random(image.shape) < 0.4, rng.random(image.shape) < 0.1
given = np.where(wrong, rng.integers(0, 2, image.shape), image)
given[lost] = np.nan

# %%
# The square loss follows wrong pixels. The Huber loss grows only linearly beyond δ, which is 0.05 here: about the
# detail that a matrix of low rank cannot draw. A limit on the rank, and no effects of rows and columns, save time.

settings = {"rank": 15, "effects": None, "random_state": 0}
plain = MatrixCompletion(**settings).fit(given)
robust = MatrixCompletion(loss="huber:0.05", **settings).fit(given)
column_means = np.broadcast_to(np.nanmean(given, axis=0), image.shape)
repaired = {"square loss": plain.predict(given), "Huber loss": robust.predict(given)}
for name, guess in {"mean of the column": column_means, **repaired}.items():
    print(f"{name:18} RMSE {np.sqrt(np.mean((guess - image)[lost] ** 2)):.3f} of the lost pixels")

# %%
# `outlier_scores_` are the residuals of the given pixels, relative to their usual size.

suspects = robust.outlier_scores_.to_dense() > 15
share = (suspects & wrong).sum() / suspects.sum()
print(f"{share:.0%} of the {suspects.sum()} pixels with a score above 15 were made wrong")

# %%
# The photograph, what is given (lost pixels in orange), and the repairs with two losses.

shown = {"photograph": image, "given": given, **repaired}
figure, axes = plt.subplots(2, 2, figsize=(6, 4.6))
colours = plt.get_cmap("gray").with_extremes(bad="#E69F00")
for ax, (name, picture) in zip(axes.flat, shown.items(), strict=True):
    ax.imshow(picture, cmap=colours, vmin=0, vmax=1)
    ax.set_title(name)
    ax.axis("off")
plt.show()
