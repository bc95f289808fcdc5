"""Tables with one entry a line are not completed as if they were matrices."""

import warnings

import numpy as np
import pandas as pd
import pytest

from rslm import ImplicitCompletion, MatrixCompletion, ObservedMatrix


@pytest.fixture
def ratings():
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random((30, 20)) < 0.3)
    return pd.DataFrame({"userId": rows, "movieId": cols, "rating": rng.integers(1, 6, len(rows))})


@pytest.mark.parametrize("model", [MatrixCompletion(rank=1, C=1.0), ImplicitCompletion(1, 1.0)])
def test_named_columns_are_refused_and_the_message_has_the_code(ratings, model):
    with pytest.raises(ValueError, match="columns 'userId', 'movieId', 'rating'") as refused:
        model.fit(ratings)
    code = str(refused.value).split("Use ")[1].split(", or,")[0]
    data = eval(code, {"ObservedMatrix": ObservedMatrix, "X": ratings})  # the code in the message works
    assert len(data) == len(ratings)
    assert model.fit(data).predict([0], [0]).shape == (1,)


def test_ids_with_the_ratings_as_y_are_refused(ratings):
    with pytest.raises(ValueError, match=r"from_ratings\(X\['userId'\], X\['movieId'\], the values\)"):
        MatrixCompletion(rank=1, C=1.0).fit(ratings[["userId", "movieId"]], ratings["rating"])


def test_unknown_names_are_warned_about(ratings):
    with pytest.warns(UserWarning, match="look like ids"):
        MatrixCompletion(rank=1, C=1.0).fit(ratings.to_numpy())


@pytest.mark.parametrize(
    "table",
    [
        np.random.default_rng(0).standard_normal((40, 3)),
        np.random.default_rng(0).integers(0, 9, (200, 3)),  # pairs occur twice: counts, not ids
        np.stack([np.arange(40), np.arange(40) % 2, np.arange(40) ** 2], axis=1),  # the first column is a line number
        np.where(np.arange(120).reshape(40, 3) % 7, 1.0, np.nan),
    ],
    ids=["numbers", "counts", "lines", "missing"],
)
def test_tables_are_not(table):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        MatrixCompletion(rank=1, C=1e-3, max_iter=5, tol=0.1).fit(table)


def test_measurements_with_such_names_are_a_table():
    rng = np.random.default_rng(0)
    names = ["session", "video", "score", "age"]
    numbers = pd.DataFrame(rng.standard_normal((40, 4)), columns=names)
    MatrixCompletion(rank=1, C=1e-3, max_iter=5, tol=0.1).fit(numbers.mask(rng.random((40, 4)) < 0.2))
    MatrixCompletion(rank=1, C=1e-3, max_iter=5, tol=0.1).fit(numbers)
