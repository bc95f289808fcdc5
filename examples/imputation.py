"""Fill a table in a pipeline

You have a table with missing values, and a classifier that takes none. You get a pipeline of scikit-learn that fills
the table first.
"""

# %%
# The table comes with scikit-learn: 30 measurements of 569 tumours, which are benign or malignant. A share of the
# values is removed at random.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rslm import MatrixCompletion

table, kind = load_breast_cancer(return_X_y=True)
removed = np.random.default_rng(0).random(table.shape)
shares = [0.3, 0.7]

# %%
# `MatrixCompletion` is a transformer, like the imputers of scikit-learn: `fit` learns factors of the columns from the
# training rows, and `transform` fills the gaps of any rows. Columns have different units, so they are scaled first. The
# test rows are used to measure, and for nothing else.

imputers = {
    "mean of the column": SimpleImputer(),
    "5 nearest neighbours": KNNImputer(),
    "MatrixCompletion": MatrixCompletion(random_state=0),
}
errors = {name: [] for name in imputers}
for share in shares:
    with_gaps = np.where(removed < share, np.nan, table)
    train, test, kind_train, kind_test, _, complete = train_test_split(with_gaps, kind, table, random_state=0)
    gaps = np.isnan(test)
    for name, imputer in imputers.items():
        pipeline = make_pipeline(StandardScaler(), imputer, LogisticRegression()).fit(train, kind_train)
        filled, wanted = pipeline[:2].transform(test), pipeline[0].transform(complete)
        errors[name].append(np.sqrt(np.mean((filled - wanted)[gaps] ** 2)))
        right = pipeline.score(test, kind_test)
        print(f"{share:.0%} missing, {name:20} RMSE {errors[name][-1]:.2f}, accuracy of the classifier {right:.1%}")

# %%
# The columns are strongly related, so few factors predict a missing value well, even if most values of the row are
# missing. Errors are in standard deviations of a column. The accuracy is of 143 test rows, so differences of 2 % in
# it may be chance. Nearest neighbours can be better where rows form groups: they are for the images of digits in
# scikit-learn, with up to half of the pixels missing.

figure, axes = plt.subplots(figsize=(6, 3.6))
for k, ((name, found), colour) in enumerate(zip(errors.items(), ["#BFBFBF", "#7F7F7F", "#0072B2"], strict=True)):
    bars = axes.bar(np.arange(len(shares)) + 0.27 * (k - 1), found, 0.25, color=colour, label=name)
    axes.bar_label(bars, fmt="%.2f")
axes.set_xticks(range(len(shares)), labels=[f"{share:.0%} of the values missing" for share in shares])
axes.set(ylabel="RMSE of filled test values", ylim=(0, 1.7))
axes.legend(loc="upper left")
plt.show()
