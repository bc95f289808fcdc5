"""Fill a table in a pipeline

You have a table with missing values, and a model that takes none. You get a pipeline of scikit-learn that fills the
table first, and predicts better than with the usual imputers.
"""

# %%
# The table has 1,797 images of digits, 8 × 8 pixels each, from scikit-learn. A share of the pixels is removed at
# random. The classifier is a logistic regression.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from rslm import MatrixCompletion

pixels, digits = load_digits(return_X_y=True)
rng = np.random.default_rng(0)
uniform = rng.random(pixels.shape)


def with_missing(share):
    """The table without this share of its values, and the same split into training and test rows each time."""
    table = np.where(uniform < share, np.nan, pixels / 16)
    return train_test_split(table, digits, random_state=0)


# %%
# `MatrixCompletion` is a transformer: `fit` learns the factors of the columns from the training rows, and `transform`
# fills the gaps of any rows. The test rows are never used to fit anything.

imputers = {
    "mean of the column": SimpleImputer(),
    "5 nearest neighbours": KNNImputer(),
    "MatrixCompletion": MatrixCompletion(random_state=0),
}
shares = [0.2, 0.5, 0.8]
accuracy = {name: [] for name in imputers}
for share in shares:
    train, test, of_train, of_test = with_missing(share)
    for name, imputer in imputers.items():
        pipeline = make_pipeline(imputer, LogisticRegression(C=0.3, max_iter=300)).fit(train, of_train)
        accuracy[name].append(pipeline.score(test, of_test))
for name, found in accuracy.items():
    print(f"{name:21}", *(f"{a:.1%} right with {s:.0%} missing;" for a, s in zip(found, shares, strict=True)))

# %%
# The more is missing, the more the imputer matters. Below: three test images with half of their pixels missing (white),
# and as `MatrixCompletion` fills them.

train, test, *_ = with_missing(0.5)
filled = MatrixCompletion(random_state=0).fit(train).transform(test[:3])
figure = plt.figure(figsize=(6, 6.2))
above, below = figure.subfigures(2, 1, height_ratios=[3, 2])
axes = above.subplots()
for (name, found), style in zip(accuracy.items(), ["s:", "^--", "o-"], strict=True):
    axes.plot(shares, found, style, label=name, color="#0072B2" if style == "o-" else "#7F7F7F")
axes.set(xlabel="share of missing pixels", ylabel="accuracy on test rows")
axes.set_xticks(shares, labels=[f"{s:.0%}" for s in shares])
axes.legend(loc="lower left")
for axes, image in zip(below.subplots(1, 6), [image for pair in zip(test[:3], filled, strict=True) for image in pair],
                       strict=True):
    axes.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
    axes.set(xticks=[], yticks=[], facecolor="#F6D8B8")
plt.show()
