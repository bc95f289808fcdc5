"""What is said of input that is no matrix of numbers, in the words of the estimator that it was given to."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest

from rslm import ImplicitCompletion, MatrixCompletion, MultiTaskRegressor, PanelCompletion, ReducedRankRegressor

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(RNG.standard_normal((30, 3)), columns=["a", "b", "c"])
Y = RNG.standard_normal(30)
FITS = {
    "completion": lambda X: MatrixCompletion(1, 1.0).fit(X),
    "implicit": lambda X: ImplicitCompletion(1, 1.0).fit(X),
    "tasks": lambda X: MultiTaskRegressor(1, 1.0).fit(X, Y),
    "targets": lambda X: ReducedRankRegressor(1, 1.0).fit(X, Y),
}
ADVICE = {
    "completion": "If every line is one entry, use ObservedMatrix.from_ratings.*ColumnTransformer",
    "implicit": "If every line is one entry, use ObservedMatrix.from_ratings.*ColumnTransformer",
    "tasks": "give it as tasks=",
    "targets": "Encode it as numbers, or leave it out",
}


@pytest.mark.parametrize("kind", FITS)
@pytest.mark.parametrize(
    ("column", "said"),
    [
        (["s80"] * 30, "contains the text 's80'"),
        (pd.date_range("2024-01-01", periods=30), r"has dtype datetime64\[.*"),
        (pd.date_range("2024-01-01", periods=30, tz="UTC"), r"has dtype datetime64\[.*"),
        (pd.timedelta_range("1h", periods=30), r"has dtype timedelta64\[.*"),
        (pd.date_range("2024-01-01", periods=30).date, "contains 2024-01-01, a date"),
    ],
)
def test_a_column_of_text_or_dates(kind, column, said):
    with pytest.raises(TypeError, match=f"Column 'when' of X {said}, but real numbers are needed. .*{ADVICE[kind]}"):
        FITS[kind](TABLE.assign(when=column))


@pytest.mark.parametrize("kind", FITS)
@pytest.mark.parametrize(
    ("X", "error", "said"),
    [
        ({"a": [1.0, 2.0]}, TypeError, "X is a dict, but a matrix .* pd.DataFrame"),
        ((row for row in np.eye(3)), TypeError, "X is a generator, but a matrix .* by list"),
        (np.ones((30, 2, 2)), ValueError, r"got shape \(30, 2, 2\)\. Choose one matrix of it, or .*reshape\(len"),
        (np.ones(30), ValueError, r"Reshape your data: X\.reshape\(-1, 1\)"),
    ],
)
def test_no_matrix(kind, X, error, said):
    with pytest.raises(error, match=said):
        FITS[kind](X)


def test_infinite_values_of_a_table():
    with pytest.raises(ValueError, match=r"1 of 90 values are infinite: the first is inf at row 4, .*'b'\. Replace"):
        MatrixCompletion(1, 1.0).fit(TABLE.mask(np.outer(np.arange(30) == 4, [False, True, False]), np.inf))


def warned(fit):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
    return [str(one.message) for one in caught if issubclass(one.category, UserWarning)]


def test_what_has_no_entry_is_named():
    given = TABLE.assign(b=np.nan)
    (said,) = warned(lambda: MatrixCompletion(1, 1.0, random_state=0).fit(given))
    assert re.search(r"^1 of 3 features \(column 'b'\) have no observed entry.*keep_empty_features=False", said)
    (said,) = warned(lambda: MatrixCompletion(1, 1.0, keep_empty_features=False, random_state=0).fit(given))
    assert "keep_empty_features" not in said
    empty = TABLE.to_numpy().copy()
    empty[[2, 3, 5, 8]] = np.nan
    (said,) = warned(lambda: MatrixCompletion(1, 1.0, effects=None, random_state=0).fit(empty))
    assert re.search(r"^4 of 30 samples \(rows 2, 3, 5, …\) have no observed entry; .*average", said)


def panel():
    days = pd.date_range("2024-01-01", periods=12)
    made = pd.DataFrame(RNG.standard_normal((8, 12)), index=[f"shop{k}" for k in range(8)], columns=days)
    treated = pd.DataFrame(np.outer(np.arange(8) < 3, np.arange(12) > 7), made.index, days)
    return made, treated


def test_a_long_panel_without_names_of_columns():
    long = panel()[0].rename_axis("shop").reset_index().melt("shop", var_name="day", value_name="sales")
    with pytest.raises(ValueError, match=r"outcomes must be numbers.* got object. For a long table, give unit=, time="):
        PanelCompletion().fit(long)


def test_a_transposed_panel():
    outcomes, treated = panel()
    said = "dates in its index, such as 2024-01-01, but none in its columns, such as 'shop0'.*outcomes.T"
    with pytest.warns(UserWarning, match=said):
        PanelCompletion(1, C=1.0, random_state=0).fit(outcomes.T, treated.T)
    assert not [
        one
        for one in warned(lambda: PanelCompletion(1, C=1.0, random_state=0).fit(outcomes, treated))
        if "dates" in one
    ]


@pytest.mark.parametrize("column", [["x"] * 30, pd.date_range("2024", periods=30).to_list()], ids=["text", "dates"])
def test_a_column_of_polars_is_named(column):
    polars = pytest.importorskip("polars")
    with pytest.raises(TypeError, match="Column 'b' of X"):
        MatrixCompletion(1, 1.0).fit(polars.DataFrame({"a": RNG.standard_normal(30), "b": column}))
