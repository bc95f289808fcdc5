"""Weights of entries: every form in which they are given, where they are carried along, and what errors say."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from rslm.data import ObservedMatrix, holdout

nan, inf = np.nan, np.inf
DENSE = np.array([[1.0, nan, 0.0], [nan, nan, nan], [nan, 5.0, -2.0], [4.0, nan, nan]])
WEIGHTS = np.array([[2.0, nan, 0.5], [nan, nan, nan], [nan, 1.0, 3.0], [4.0, nan, nan]])
BY_ENTRY = [2.0, 0.5, 1.0, 3.0, 4.0]


def data() -> ObservedMatrix:
    return ObservedMatrix.from_any(DENSE)


def named() -> ObservedMatrix:
    return ObservedMatrix.from_ratings(["a", "a", "b", "c"], ["x", "y", "x", "z"], [1.0, 2, 3, 4])


def stored(weights: Any = BY_ENTRY) -> sparse.csr_array:
    csr = data().to_csr()
    return sparse.csr_array((np.array(weights, dtype=float), csr.indices, csr.indptr), shape=csr.shape)


def weights_as_dense(matrix: ObservedMatrix) -> Any:
    return matrix.with_values(np.ones(len(matrix)) if matrix.weights is None else matrix.weights).to_dense()


FORMS = {
    "array of entries": np.array(BY_ENTRY),
    "list": BY_ENTRY,
    "series": pd.Series(BY_ENTRY),
    "array": WEIGHTS,
    "any number where nothing is observed": np.where(np.isnan(WEIGHTS), -7.0, WEIGHTS),
    "nested list": WEIGHTS.tolist(),
    "masked": np.ma.masked_invalid(WEIGHTS),
    "pandas": pd.DataFrame(WEIGHTS),
    "polars": pl.DataFrame(WEIGHTS),
    **{f: stored().asformat(f) for f in ("csr", "csc", "coo", "lil", "dok", "bsr")},
    "sparse matrix": sparse.csr_matrix(stored()),
    "observed": ObservedMatrix.from_any(WEIGHTS),
    "single precision": WEIGHTS.astype(np.float32),
}


class TestWeighted:
    @pytest.mark.parametrize("form", FORMS)
    def test_forms(self, form: str) -> None:
        found = data().weighted(FORMS[form])
        assert found.weights is not None
        assert found.weights.dtype == np.float64
        assert found.weights.tolist() == BY_ENTRY
        np.testing.assert_array_equal(found.to_dense(), DENSE)

    def test_whole_numbers_booleans_and_one_number(self) -> None:
        assert weights_as_dense(data().weighted([1, 2, 3, 4, 5]))[2, 2] == 4.0
        assert len(data().weighted([True, False, True, True, True])) == 4
        assert np.nansum(weights_as_dense(data().weighted(2.5))) == 12.5

    def test_no_weights(self) -> None:
        for ones in (np.ones(5), 1.0, np.ones((4, 3)), None):
            assert data().weighted(BY_ENTRY).weighted(ones).weights is None

    def test_others_replace_them(self) -> None:
        found = data().weighted(BY_ENTRY).weighted([1, 1, 1, 1, 9])
        assert found.weights is not None
        assert found.weights.tolist() == [1, 1, 1, 1, 9]

    @pytest.mark.parametrize("form", [lambda w: w, stored, lambda w: stored(w).tocoo()])
    def test_an_entry_of_weight_0_is_not_there(self, form: Any) -> None:
        found = data().weighted(form([2.0, 0.0, 1.0, 3.0, 0.0]))
        without = DENSE.copy()
        without[0, 2] = without[3, 0] = nan
        np.testing.assert_array_equal(found.to_dense(), without)
        assert found.weights is not None
        assert found.weights.tolist() == [2.0, 1.0, 3.0]
        assert found.shape == (4, 3)
        assert data().weighted(form([1.0, 0.0, 1.0, 1.0, 1.0])).weights is None

    def test_input_is_unchanged(self) -> None:
        matrix, weights = data(), np.array([0.0, 1, 2, 3, 4])
        matrix.weighted(weights)
        assert matrix.weights is None
        assert (len(matrix), weights[0]) == (5, 0.0)

    def test_ids_stay_and_are_compared(self) -> None:
        table = pd.DataFrame([[1.0, 2.0], [nan, 3.0]], index=["a", "b"], columns=["x", "y"])
        matrix = ObservedMatrix.from_any(table)
        found = matrix.weighted(pd.DataFrame([[5.0, 6.0], [7.0, 8.0]], index=["a", "b"], columns=["x", "y"]))
        assert found.weights is not None
        assert found.weights.tolist() == [5, 6, 8]
        assert found.row_ids is not None
        assert found.row_ids.tolist() == ["a", "b"]
        with pytest.raises(ValueError, match="other row ids than X, or in another order"):
            matrix.weighted(table.iloc[::-1])
        with pytest.raises(ValueError, match="other column ids than X"):
            matrix.weighted(ObservedMatrix.from_any(table.rename(columns={"x": "z"})))


class TestErrors:
    @pytest.mark.parametrize("bad", [-1.0, nan, inf, -inf])
    @pytest.mark.parametrize("form", [lambda w: w, stored, lambda w: data().with_values(np.array(w))])
    def test_bad_numbers(self, bad: float, form: Any) -> None:
        said = f"1 of 5 weights are negative, NaN or infinite: the first is {bad:g} at row 2, column 1. A weight must"
        with pytest.raises(ValueError, match=re.escape(said)):
            data().weighted(form([1.0, 2.0, bad, 1.0, 1.0]))

    def test_ids_are_named(self) -> None:
        with pytest.raises(ValueError, match="the first is -2 at row 'b', column 'x'"):
            named().weighted([1, 1, -2, 1])
        with pytest.raises(ValueError, match=r"2 of 4 weights .* the first is nan at row 'a', column 'y'"):
            ObservedMatrix.from_ratings(
                ["a", "a", "b", "c"], ["x", "y", "x", "z"], [1.0, 2, 3, 4], weights=[1, nan, 1, -1]
            )

    def test_all_zero(self) -> None:
        for make in (lambda: data().weighted(np.zeros(5)), lambda: data().weighted(0.0)):
            with pytest.raises(ValueError, match=r"all 5 weights are zero, so nothing is observed. Give at least one"):
                make()
        with pytest.raises(ValueError, match="all 1 weights are zero"):
            ObservedMatrix.from_triplets([0], [0], [1.0], weights=[0.0])

    @pytest.mark.parametrize("given", [np.ones(4), np.ones(7), np.ones((2, 2, 2)), []])
    def test_length(self, given: Any) -> None:
        with pytest.raises(ValueError, match="5 entries are observed: give one weight for each of them, row by row"):
            data().weighted(given)

    @pytest.mark.parametrize("given", [np.ones((3, 4)), sparse.eye_array(4), pd.DataFrame(np.ones((4, 2)))])
    def test_shape(self, given: Any) -> None:
        with pytest.raises(ValueError, match=re.escape(f"shape {given.shape}, but X has shape (4, 3)")):
            data().weighted(given)

    def test_pattern(self) -> None:
        lacking, more = stored().tolil(), stored().tolil()
        lacking[2, 1] = 0.0  # removes the stored entry
        more[1, 2] = 1.0
        last = sparse.coo_array(stored())
        with pytest.raises(
            ValueError, match="another pattern than X: row 2, column 1 is observed in X, but has no wei"
        ):
            data().weighted(lacking)
        with pytest.raises(ValueError, match="row 1, column 2 has a weight, but is not observed"):
            data().weighted(more)
        with pytest.raises(ValueError, match="row 3, column 0 is observed in X, but has no weight"):
            data().weighted(sparse.coo_array((last.data[:4], (last.row[:4], last.col[:4])), shape=(4, 3)))
        with pytest.raises(ValueError, match="row 'a', column 'z' has a weight, but is not observed"):
            named().weighted(sparse.csr_array(np.ones((3, 3))))

    def test_kinds(self) -> None:
        with pytest.raises(TypeError, match="the text 'stars', but numbers are needed"):
            data().weighted("stars")
        with pytest.raises(ValueError, match="Complex data not supported: sample_weight"):
            data().weighted(stored().astype(complex))
        with pytest.raises(TypeError, match="Column 0 of sample_weight has dtype"):
            data().weighted(pd.DataFrame([["a"] * 3] * 4))
        with pytest.raises(TypeError, match="weights has dtype"):
            ObservedMatrix.from_triplets([0], [0], [1.0], weights=["a"])


class TestEntries:
    def test_triplets_in_any_order(self) -> None:
        rows, cols = [2, 0, 3, 2, 0], [2, 2, 0, 1, 0]
        found = ObservedMatrix.from_triplets(rows, cols, [-2.0, 0, 4, 5, 1], weights=[3.0, 0.5, 4.0, 1.0, 2.0])
        np.testing.assert_array_equal(found.to_dense(), DENSE)
        np.testing.assert_array_equal(weights_as_dense(found), WEIGHTS)

    def test_ratings(self) -> None:
        found = ObservedMatrix.from_ratings(list("bab"), list("yxx"), [1, 2, 3], weights=[1, 2, 3])
        np.testing.assert_array_equal(weights_as_dense(found), [[2, nan], [3, 1]])

    def test_weight_0_leaves_an_entry_out_but_not_its_row_and_column(self) -> None:
        found = ObservedMatrix.from_ratings(list("abc"), list("xyz"), [1.0, nan, 3.0], weights=[1, 0, 1])
        assert (found.shape, len(found), found.weights) == ((3, 3), 2, None)
        assert ObservedMatrix.from_triplets([0, 5], [0, 7], [1.0, 2.0], weights=[2, 0]).shape == (6, 8)

    def test_lengths(self) -> None:
        with pytest.raises(ValueError, match=r"one value and one weight are needed .* values has 2, weights has 1"):
            ObservedMatrix.from_triplets([0, 1], [0, 1], [1.0, 2.0], weights=[1.0])

    @pytest.mark.parametrize(
        ("duplicates", "value", "weight"), [("mean", (1.0 * 2 + 5.0 * 6) / 8, 8.0), ("last", 5.0, 6.0)]
    )
    def test_duplicates(self, duplicates: Any, value: float, weight: float) -> None:
        rows, cols, values, weights = [1, 0, 1, 1], [1, 0, 1, 1], [1.0, 7.0, 5.0, 9.0], [2.0, 1.0, 6.0, 0.0]
        found = ObservedMatrix.from_triplets(rows, cols, values, duplicates=duplicates, weights=weights)
        assert found.weights is not None
        assert (found.values.tolist(), found.weights.tolist()) == ([7.0, value], [1.0, weight])

    def test_sum_of_duplicates_needs_equal_weights(self) -> None:
        found = ObservedMatrix.from_triplets([0, 0], [1, 1], [2.0, 3.0], duplicates="sum", weights=[4, 4])
        assert found.weights is not None
        assert (found.values.tolist(), found.weights.tolist()) == ([5.0], [4.0])
        with pytest.raises(ValueError, match="row 0, column 1 is repeated with different weights, so its sum has none"):
            ObservedMatrix.from_triplets([0, 0], [1, 1], [2.0, 3.0], duplicates="sum", weights=[4, 5])

    def test_a_repeated_entry_of_weight_0_is_no_repetition(self) -> None:
        assert len(ObservedMatrix.from_triplets([0, 0], [1, 1], [2.0, 3.0], weights=[0, 1])) == 1
        with pytest.raises(ValueError, match="1 of 2 entries repeat an earlier one: the first is row 0, column 1"):
            ObservedMatrix.from_triplets([0, 0], [1, 1], [2.0, 3.0], weights=[1, 1])

    @settings(max_examples=50, deadline=None)
    @given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30))
    def test_the_weighted_mean_is_that_of_repeated_lines(self, lines: list[tuple[int, int, int]]) -> None:
        rows, cols, weights = (np.array(part) for part in zip(*lines, strict=True))
        if not weights.any():
            return
        values = np.arange(len(lines)) * 1.7
        found = ObservedMatrix.from_triplets(rows, cols, values, (5, 4), "mean", weights)
        r, c, v = (np.repeat(part, weights) for part in (rows, cols, values))
        repeated = ObservedMatrix.from_triplets(r, c, v, (5, 4), "mean")
        np.testing.assert_allclose(found.to_dense(), repeated.to_dense(), rtol=1e-12)  # sums in another order
        total = np.zeros((5, 4))
        np.add.at(total, (rows, cols), weights)
        np.testing.assert_array_equal(np.nan_to_num(weights_as_dense(found)), total)


class TestCarriedAlong:
    def weighted(self) -> ObservedMatrix:
        return data().weighted(WEIGHTS)

    def test_transposed(self) -> None:
        np.testing.assert_array_equal(weights_as_dense(self.weighted().transposed()), WEIGHTS.T)
        again = self.weighted().transposed().transposed()
        np.testing.assert_array_equal(weights_as_dense(again), WEIGHTS)
        assert data().transposed().weights is None

    def test_other_values(self) -> None:
        assert self.weighted().with_values(np.zeros(5)).weights is not None

    def test_other_columns(self) -> None:
        wide = named().weighted([1, 2, 3, 4]).with_columns(np.array(["z", "new", "y", "x"], dtype=object))
        np.testing.assert_array_equal(
            weights_as_dense(wide), [[nan, nan, 2, 1], [nan, nan, nan, 3], [4, nan, nan, nan]]
        )

    def test_copies_and_pickles(self) -> None:
        for other in (
            copy.copy(self.weighted()),
            copy.deepcopy(self.weighted()),
            pickle.loads(pickle.dumps(self.weighted())),
        ):
            np.testing.assert_array_equal(weights_as_dense(other), WEIGHTS)

    def test_as_a_sparse_matrix(self) -> None:
        np.testing.assert_array_equal(self.weighted().weights_to_csr().toarray(), np.nan_to_num(WEIGHTS))
        assert data().weights_to_csr().data.tolist() == [1.0] * 5
        assert data().weighted(self.weighted().weights_to_csr()).weights is not None

    def test_subset(self) -> None:
        some = self.weighted().subset(np.array([False, True, False, True, True]))
        assert some.weights is not None
        assert (some.values.tolist(), some.weights.tolist()) == ([0.0, -2.0, 4.0], [0.5, 3.0, 4.0])
        assert some.indptr.tolist() == [0, 1, 1, 2, 3]

    def test_holdout(self) -> None:
        rng = np.random.default_rng(0)
        dense = np.where(rng.random((30, 20)) < 0.4, rng.standard_normal((30, 20)), nan)
        weights = rng.random((30, 20)) + 0.5
        parts = holdout(ObservedMatrix.from_any(dense).weighted(weights), 0.3, 1)
        for part in parts:
            known = ~np.isnan(part.to_dense())
            np.testing.assert_array_equal(weights_as_dense(part)[known], weights[known])
        assert [len(p) for p in parts] == [len(p) for p in holdout(ObservedMatrix.from_any(dense), 0.3, 1)]
