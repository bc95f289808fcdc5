"""ObservedMatrix: every door into it, every way out, and what the errors say."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.io
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from rslm.data import ObservedMatrix

nan, inf = np.nan, np.inf
DENSE = np.array([[1.0, nan, 0.0], [nan, nan, nan], [nan, 5.0, -2.0], [4.0, nan, nan]])
ROWS, COLS, VALUES = [2, 0, 3, 2, 0], [2, 2, 0, 1, 0], [-2.0, 0.0, 4.0, 5.0, 1.0]


def triplets(**options: Any) -> ObservedMatrix:
    return ObservedMatrix.from_triplets(ROWS, COLS, VALUES, **options)


def says(*facts: str) -> str:
    """A pattern for messages that contain all these facts, in any order."""
    return "(?s)" + "".join(f"(?=.*{re.escape(fact)})" for fact in facts)


def check_canonical(data: ObservedMatrix) -> None:
    assert (data.indptr.dtype, data.index.dtype) == (np.int64, np.int32)
    assert data.values.dtype in (np.float32, np.float64)
    assert (data.indptr[0], data.indptr[-1], len(data.indptr)) == (0, len(data), data.shape[0] + 1)
    assert len(data.index) == len(data.values) == data.n_observed
    for start, end in zip(data.indptr[:-1], data.indptr[1:], strict=True):
        assert np.all(np.diff(data.index[start:end]) > 0)


class TestTriplets:
    def test_entries_are_sorted_and_a_zero_is_observed(self) -> None:
        data = triplets()
        check_canonical(data)
        assert data.indptr.tolist() == [0, 2, 2, 4, 5]
        assert data.index.tolist() == [0, 2, 1, 2, 0]
        assert data.values.tolist() == [1, 0, 5, -2, 4]
        assert data.row_ids is None
        np.testing.assert_array_equal(data.to_dense(), DENSE)

    def test_shape(self) -> None:
        assert triplets().shape == (4, 3)
        assert triplets(shape=(6, np.int64(9))).shape == (6, 9)

    @pytest.mark.parametrize("kind", ["int8", "uint16", "int32", "uint64", ">i8"])
    def test_index_kinds(self, kind: str) -> None:
        data = ObservedMatrix.from_triplets(np.array(ROWS, kind), np.array(COLS, kind), VALUES)
        check_canonical(data)
        np.testing.assert_array_equal(data.to_dense(), DENSE)

    @pytest.mark.parametrize(
        ("given", "kept"),
        [
            ("f4", "f4"),
            ("f8", "f8"),
            ("f2", "f8"),
            (">f4", "f4"),
            (">f8", "f8"),
            ("i4", "f8"),
            ("u1", "f8"),
            ("?", "f8"),
        ],
    )
    def test_value_kinds(self, given: str, kept: str) -> None:
        data = ObservedMatrix.from_triplets([0, 1], [0, 1], np.array([1, 0], given))
        assert data.values.dtype == np.dtype(kept)
        assert data.values.dtype.isnative
        assert data.values.tolist() == [1, 0]

    @pytest.mark.parametrize(("rule", "expected"), [("sum", 7.0), ("mean", 7 / 3), ("last", 4.0)])
    @pytest.mark.parametrize("kind", ["f4", "f8"])
    def test_duplicates(self, rule: Any, expected: float, kind: str) -> None:
        values = np.array([1, 9, 2, 8, 4, 7], kind)
        data = ObservedMatrix.from_triplets([3, 0, 3, 3, 3, 1], [1, 1, 1, 0, 1, 1], values, (5, 2), duplicates=rule)
        check_canonical(data)
        assert data.values.dtype == kind
        assert data.row_counts().tolist() == [1, 1, 0, 2, 0]
        np.testing.assert_allclose(data.values, [9, 7, 8, expected], rtol=1e-6)

    def test_last_is_the_last_given_even_in_long_rows(self) -> None:
        rng = np.random.default_rng(0)
        cols = rng.integers(50, size=5000)
        data = ObservedMatrix.from_triplets(np.zeros(5000, int), cols, np.arange(5000), duplicates="last")
        assert data.values.tolist() == [np.flatnonzero(cols == j)[-1] for j in range(50)]

    def test_equal_columns_of_neighbouring_rows_are_no_duplicates(self) -> None:
        assert len(ObservedMatrix.from_triplets([1, 3, 4], [2, 2, 2], [1, 1, 1], (7, 3))) == 3

    def test_duplicates_are_an_error_by_default(self) -> None:
        facts = says("2 of 5 entries", "row 1, column 7", "sum", "mean", "last")
        with pytest.raises(ValueError, match=facts):
            ObservedMatrix.from_triplets([4, 1, 4, 0, 1], [7, 7, 7, 1, 7], np.ones(5))

    @pytest.mark.parametrize(
        ("arguments", "error", "facts"),
        [
            (([0, -1], [0, 0], [1, 2]), ValueError, ("rows[1] is -1", "from 0 to 0")),
            (([0, 1], [0, 5], [1, 2], (2, 5)), ValueError, ("cols[1] is 5", "from 0 to 4", "larger shape")),
            (([0, 1], [0], [1, 2]), ValueError, ("rows has 2", "cols has 1", "values has 2")),
            (([], [], []), ValueError, ("Nothing is observed",)),
            (([0.0], [0], [1]), TypeError, ("rows has dtype float64", "integers", "astype")),
            (([0], [True], [1]), TypeError, ("cols has dtype bool", "flatnonzero")),
            ((["a"], [0], [1]), TypeError, ("rows has dtype <U1", "from_ratings")),
            (([[0]], [0], [1]), ValueError, ("rows has shape (1, 1)", "ravel")),
            (([0], [0], [[1]]), ValueError, ("values has shape (1, 1)", "ravel")),
            (([0], [0], [1j]), ValueError, ("Complex data not supported", "complex128")),
            (([0], [0], ["1"]), TypeError, ("values has dtype <U1", "real numbers")),
            (([0], [0], np.array([1], object)), TypeError, ("values has dtype object",)),
            (([0, 1, 1], [0, 1, 2], [1, nan, inf]), ValueError, ("2 of 3 values", "nan at row 1, column 1")),
            (([0, 1], [0, 1], [1, -inf]), ValueError, ("1 of 2 values", "-inf at row 1, column 1")),
            (([0], [0], [1], (2,)), ValueError, ("shape is (2,)", "two integers")),
            (([0], [0], [1], (2.5, 1)), ValueError, ("shape is (2.5, 1)", "two integers")),
            (([0], [0], [1], (2**40, 1)), ValueError, (str(2**40), str(2**31 - 1), "from_ratings")),
            (([0], [10**12], [1]), ValueError, (str(10**12 + 1), "from_ratings")),
            (([0], [0], [1], None, "first"), ValueError, ("'first'", "'error', 'sum', 'mean' or 'last'")),
        ],
    )
    def test_errors(self, arguments: Any, error: type[Exception], facts: tuple[str, ...]) -> None:
        with pytest.raises(error, match=says(*facts)):
            ObservedMatrix.from_triplets(*arguments)

    @given(st.data())
    @settings(deadline=None)
    def test_round_trip(self, data: st.DataObject) -> None:
        shape = data.draw(hnp.array_shapes(min_dims=2, max_dims=2, max_side=7))
        dtype = data.draw(st.sampled_from([np.float32, np.float64]))
        width = 32 if dtype == np.float32 else 64
        dense = data.draw(hnp.arrays(dtype, shape, elements=st.floats(-9, 9, width=width) | st.just(nan)))
        if np.isnan(dense).all():
            return
        rows, cols = np.nonzero(~np.isnan(dense))
        order = data.draw(st.permutations(range(len(rows))))
        rows, cols = rows[order], cols[order]
        made = ObservedMatrix.from_triplets(rows, cols, dense[rows, cols], shape)
        check_canonical(made)
        assert made.values.dtype == dtype
        for same in made, ObservedMatrix.from_any(dense), made.transposed().transposed():
            np.testing.assert_array_equal(same.to_dense(), dense)
        np.testing.assert_array_equal(made.transposed().to_dense(), dense.T)


class TestRatings:
    PEOPLE, FILMS, STARS = ["eve", "bob", "eve", "amy"], [30, 10, 10, 20], [5, 1, 2, 3]
    EXPECTED = np.array([[nan, 3, nan], [1, nan, nan], [2, nan, 5]])

    @pytest.mark.parametrize("box", [list, tuple, np.array, pd.Series, pl.Series, iter])
    def test_sorted_ids_whatever_the_container(self, box: Any) -> None:
        data = ObservedMatrix.from_ratings(box(self.PEOPLE), box(self.FILMS), self.STARS)
        check_canonical(data)
        assert data.row_ids is not None
        assert data.col_ids is not None
        assert data.row_ids.tolist() == ["amy", "bob", "eve"]
        assert data.col_ids.tolist() == [10, 20, 30]
        np.testing.assert_array_equal(data.to_dense(), self.EXPECTED)
        assert data.row_of(box(["eve", "amy"])).tolist() == [2, 0]
        assert data.col_of(box([20, 30])).tolist() == [1, 2]

    @pytest.mark.parametrize(
        ("ids", "order"),
        [
            ([7, "a", (1, 2)], [7, "a", (1, 2)]),  # cannot be compared: as they appear
            ([(2, "b"), (1, "z")], [(1, "z"), (2, "b")]),
            ([2**63, -1], [-1, 2**63]),
            ([10**15, 3], [3, 10**15]),
            (np.array([100, -100], np.int8), [-100, 100]),
            (np.array([2**64 - 1, 2**64 - 3], np.uint64), [2**64 - 3, 2**64 - 1]),
            (np.array([2.5, 0.5]), [0.5, 2.5]),
            ([True, False], [False, True]),
            (pd.Categorical(["y", "x"]), ["x", "y"]),
        ],
    )
    def test_id_kinds(self, ids: Any, order: list[Any]) -> None:
        data = ObservedMatrix.from_ratings(ids, ["c"] * len(ids), np.arange(len(ids)))
        assert data.row_ids is not None
        assert data.row_ids.tolist() == order
        assert data.row_of(order).tolist() == list(range(len(ids)))
        assert data.values[data.row_of(ids)].tolist() == list(range(len(ids)))

    def test_lookup_of_one_id_and_of_none(self) -> None:
        data = ObservedMatrix.from_ratings(self.PEOPLE, self.FILMS, self.STARS)
        assert data.row_of("eve").tolist() == [2]
        assert data.col_of(20).tolist() == [1]
        assert data.row_of([]).tolist() == []
        assert data.row_of(["bob"]).dtype == np.int64

    def test_unknown_ids(self) -> None:
        data = ObservedMatrix.from_ratings(self.PEOPLE, self.FILMS, self.STARS)
        with pytest.raises(ValueError, match=says("row id 'zoe' at position 1", "2 of 3", "3 row ids", "'amy'")):
            data.row_of(["amy", "zoe", "kim"])
        with pytest.raises(ValueError, match=says("column id '10'", "10 and '10' are different")):
            data.col_of(["10"])

    def test_positions_pass_through_when_there_are_no_ids(self) -> None:
        data = triplets()
        assert data.row_of(3).tolist() == [3]
        assert data.col_of(np.array([2, 0], np.int32)).tolist() == [2, 0]
        assert data.col_of([]).dtype == data.row_of([1]).dtype == np.int64
        with pytest.raises(ValueError, match=says("row positions[1] is 4", "from 0 to 3")):
            data.row_of([0, 4])
        with pytest.raises(ValueError, match=says("column positions[0] is -1")):
            data.col_of(-1)
        with pytest.raises(TypeError, match="integers"):
            data.row_of(["amy"])

    def test_duplicates_and_bad_values_are_named_by_id(self) -> None:
        with pytest.raises(ValueError, match=says("1 of 3 entries", "row 'amy', column 20")):
            ObservedMatrix.from_ratings(["bob", "amy", "amy"], [10, 20, 20], [1, 2, 3])
        with pytest.raises(ValueError, match=says("nan at row 'amy', column 20")):
            ObservedMatrix.from_ratings(["bob", "amy"], [10, 20], [1, nan])
        data = ObservedMatrix.from_ratings(["bob", "amy", "amy"], [10, 20, 20], [1, 2, 4], duplicates="mean")
        assert data.values.tolist() == [3, 1]

    @pytest.mark.parametrize(
        ("ids", "error", "facts"),
        [
            (["a", None, None], ValueError, ("row_ids[1] is missing", "2 in all")),
            (["a", "b", pd.NA], ValueError, ("row_ids[2] is missing", "1 in all")),
            ([1.0, nan, 2.0], ValueError, ("row_ids[1] is missing",)),
            (np.array([1.0, nan, nan]), ValueError, ("row_ids[1] is missing", "2 in all")),
            (np.array(["2020-01-01", "NaT", "2020-01-02"], "M8[D]"), ValueError, ("row_ids[1] is missing",)),
            ([{}, {}, {}], TypeError, ("row_ids must be hashable", "dict")),
            (["a"], ValueError, ("row_ids has 1", "col_ids has 3", "values has 3")),
            (np.zeros((3, 1)), ValueError, ("row_ids has shape (3, 1)",)),
        ],
    )
    def test_errors(self, ids: Any, error: type[Exception], facts: tuple[str, ...]) -> None:
        with pytest.raises(error, match=says(*facts)):
            ObservedMatrix.from_ratings(ids, ["x", "y", "z"], [1, 2, 3])


class TestAny:
    def test_returns_its_own_kind_as_it_is(self) -> None:
        data = triplets()
        assert ObservedMatrix.from_any(data) is data

    @pytest.mark.parametrize("format", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
    @pytest.mark.parametrize("container", [sparse.coo_array, sparse.coo_matrix])
    @pytest.mark.parametrize("kind", ["f4", "f8", "i2", "?"])
    def test_sparse_formats(self, format: str, container: Any, kind: str) -> None:
        X = container(([1, 1], ([0, 1], [2, 0])), shape=(2, 3), dtype=kind).asformat(format)
        data = ObservedMatrix.from_any(X)
        check_canonical(data)
        assert data.values.dtype == (np.float32 if kind == "f4" else np.float64)
        np.testing.assert_array_equal(data.to_csr().toarray(), X.toarray())

    @pytest.mark.parametrize("format", ["csr", "csc", "coo", "dok", "bsr"])
    def test_stored_zeros_are_observed(self, format: str) -> None:
        X = sparse.coo_array(([0.0, 7.0], ([0, 1], [1, 0])), shape=(2, 2)).asformat(format)
        assert ObservedMatrix.from_any(X).to_dense()[0, 1] == 0

    def test_stored_zeros_of_diagonals_are_observed(self) -> None:
        X = sparse.dia_array((np.array([[1.0, 0, 3, 9], [0, 5, 6, 9]]), [0, 1]), shape=(3, 3))
        expected = [[1, 5, nan], [nan, 0, 6], [nan, nan, 3]]
        np.testing.assert_array_equal(ObservedMatrix.from_any(X).to_dense(), expected)

    def test_unsorted_rows_are_sorted_without_touching_the_input(self) -> None:
        X = sparse.csr_array((np.array([1.0, 2.0]), np.array([1, 0]), np.array([0, 2])), shape=(1, 2))
        before = copy.deepcopy(X)
        assert ObservedMatrix.from_any(X).to_dense().tolist() == [[2, 1]]
        np.testing.assert_array_equal(X.indices, before.indices)
        np.testing.assert_array_equal(X.data, before.data)

    @pytest.mark.parametrize("format", ["coo", "csr", "csc"])
    def test_stored_duplicates_are_an_error(self, format: str) -> None:
        if format == "coo":
            X: Any = sparse.coo_array(([1.0, 2.0], ([0, 0], [1, 1])), shape=(2, 2))
        else:
            kind = sparse.csr_array if format == "csr" else sparse.csc_array
            X = kind((np.array([1.0, 2.0]), np.array([1, 1]), np.array([0, 2, 2])), shape=(2, 2))
        place = "row 1, column 0" if format == "csc" else "row 0, column 1"
        with pytest.raises(ValueError, match=says("1 of 2 entries", place, "duplicates='sum'")):
            ObservedMatrix.from_any(X)
        assert X.nnz == 2

    @pytest.mark.parametrize("kind", ["f4", "f8"])
    @pytest.mark.parametrize("box", [np.asarray, np.asfortranarray, np.ma.masked_invalid])
    def test_dense(self, box: Any, kind: str) -> None:
        data = ObservedMatrix.from_any(box(DENSE.astype(kind)))
        check_canonical(data)
        assert data.values.dtype == kind
        np.testing.assert_array_equal(data.to_dense(), DENSE)

    def test_nested_lists_objects_and_masked_integers(self) -> None:
        for X in DENSE.tolist(), DENSE.astype(object), [[1, None, 0], [None] * 3, [nan, 5, -2], [4, None, nan]]:
            np.testing.assert_array_equal(ObservedMatrix.from_any(X).to_dense(), DENSE)
        masked = np.ma.masked_equal([[1, 0], [0, 2]], 0)
        np.testing.assert_array_equal(ObservedMatrix.from_any(masked).to_dense(), [[1, nan], [nan, 2]])
        assert ObservedMatrix.from_any([[True, False]]).values.tolist() == [1, 0]

    def test_frame_with_plain_index_has_no_row_ids(self) -> None:
        data = ObservedMatrix.from_any(pd.DataFrame(DENSE))
        assert data.row_ids is None
        assert data.col_ids is None
        np.testing.assert_array_equal(data.to_dense(), DENSE)

    def test_frame_labels_become_ids(self) -> None:
        frame = pd.DataFrame(DENSE, index=list("wxyz"), columns=pd.date_range("2024-01-01", periods=3))
        data = ObservedMatrix.from_any(frame)
        assert data.row_of(["z", "w"]).tolist() == [3, 0]
        assert data.col_of(frame.columns[1:]).tolist() == [1, 2]
        assert data.col_of(frame.columns[2]).tolist() == [2]
        assert data.col_of(list(frame.columns)).tolist() == [0, 1, 2]
        slice_of_it = ObservedMatrix.from_any(pd.DataFrame(DENSE)[2:])
        assert slice_of_it.row_of([3]).tolist() == [1]
        pairs = pd.MultiIndex.from_product([["a", "b"], [1, 2]])
        assert ObservedMatrix.from_any(pd.DataFrame(DENSE, index=pairs)).row_of([("b", 1)]).tolist() == [2]

    def test_frame_with_repeated_labels_is_ambiguous_only_when_asked(self) -> None:
        data = ObservedMatrix.from_any(pd.DataFrame(DENSE, index=list("abca")))
        assert len(data) == 5
        with pytest.raises(ValueError, match=says("4 row ids", "only 3 different", "unique")):
            data.row_of(["a"])

    def test_frame_with_nullable_columns(self) -> None:
        frame = pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": pd.array([None, True], dtype="boolean")})
        np.testing.assert_array_equal(ObservedMatrix.from_any(frame).to_dense(), [[1, nan], [nan, 1]])
        assert ObservedMatrix.from_any(pd.DataFrame(DENSE.astype("f4"))).values.dtype == np.float32

    def test_polars_frame(self) -> None:
        data = ObservedMatrix.from_any(pl.DataFrame({"a": [1, None], "b": [0.5, 2.0]}))
        np.testing.assert_array_equal(data.to_dense(), [[1, 0.5], [nan, 2]])
        assert data.row_ids is None
        assert data.col_of(["b"]).tolist() == [1]

    @pytest.mark.parametrize(
        ("X", "error", "facts"),
        [
            (np.ones(3), ValueError, ("shape (3,)", "Reshape your data", "X.reshape(-1, 1)")),
            (np.ones((2, 2, 2)), ValueError, ("shape (2, 2, 2)",)),
            (5.0, ValueError, ("shape ()",)),
            pytest.param(
                sparse.coo_array(np.ones(3)),
                ValueError,
                ("shape (3,)", "Reshape your data"),
                marks=pytest.mark.skipif(
                    sparse.coo_array(np.ones(3)).ndim == 2, reason="SciPy 1.12 has no sparse arrays of one dimension"
                ),
            ),
            (np.ones((0, 3)), ValueError, ("0 sample(s) (shape=(0, 3)) while a minimum of 1 is required",)),
            (np.ones((3, 0)), ValueError, ("0 feature(s) (shape=(3, 0)) while a minimum of 1 is required",)),
            (sparse.csr_array((3, 0)), ValueError, ("0 feature(s)",)),
            (np.full((2, 2), nan), ValueError, ("Nothing is observed", "2 × 2")),
            (sparse.csr_array((2, 3)), ValueError, ("Nothing is observed", "2 × 3", "without a stored entry")),
            (np.array([[1, nan], [inf, 2]]), ValueError, ("1 of 3 values", "inf at row 1, column 0")),
            (pd.DataFrame([[1, inf]], index=["w"], columns=["c", "d"]), ValueError, ("inf at row 'w', column 'd'",)),
            (sparse.csr_array([[0, nan]]), ValueError, ("nan at row 0, column 1", "Leave entries without a value out")),
            ([[1, 2], [3]], ValueError, ("have different lengths", "equal length")),
            ([["a", "b"]], TypeError, ("dtype <U1", "real numbers")),
            (np.array([["1", 2.0]], object), TypeError, ("the text '1'",)),
            (np.array([[{}, 2.0]], object), TypeError, ("argument must be a string or a real number",)),
            (np.array([[1j]]), ValueError, ("Complex data not supported",)),
            (sparse.csr_array(np.array([[1j]])), ValueError, ("Complex data not supported",)),
            (pd.DataFrame({"a": [1], "name": ["x"]}), TypeError, ("Column 'name'", "real numbers")),
            (pl.DataFrame({"a": [1], "name": ["x"]}), TypeError, ("the text 'x'",)),
        ],
    )
    def test_errors(self, X: Any, error: type[Exception], facts: tuple[str, ...]) -> None:
        with pytest.raises(error, match=says(*facts)):
            ObservedMatrix.from_any(X)


class TestRead:
    @pytest.mark.parametrize("ending", [".npz", ".mtx"])
    def test_files(self, tmp_path: Any, ending: str) -> None:
        path = tmp_path / f"x{ending}"
        X = sparse.coo_array((VALUES, (ROWS, COLS)), shape=(4, 3))
        if ending == ".npz":
            sparse.save_npz(path, X)
        else:
            scipy.io.mmwrite(path, X)
        for name in path, str(path):
            np.testing.assert_array_equal(ObservedMatrix.read(name).to_dense(), DENSE)

    def test_missing_file(self, tmp_path: Any) -> None:
        with pytest.raises(FileNotFoundError):
            ObservedMatrix.read(tmp_path / "none.mtx")


class TestViews:
    def test_counts(self) -> None:
        data = triplets(shape=(5, 4))
        assert data.row_counts().tolist() == [2, 0, 2, 1, 0]
        assert data.col_counts().tolist() == [2, 1, 2, 0]
        assert data.rows_of_entries().tolist() == [0, 0, 2, 2, 3]
        assert data.rows_of_entries().dtype == np.int32
        assert (len(data), data.density) == (5, 0.25)

    def test_csr_shares_its_arrays(self) -> None:
        data = triplets()
        csr = data.to_csr()
        assert np.shares_memory(csr.data, data.values)
        assert np.shares_memory(csr.indices, data.index)
        assert csr.nnz == 5
        again = ObservedMatrix.from_any(csr)
        assert again.values is csr.data or np.shares_memory(again.values, csr.data)

    def test_transposed_exchanges_ids(self) -> None:
        data = ObservedMatrix.from_ratings(["b", "a"], [2, 1], np.array([1, 2], "f4"))
        turned = data.transposed()
        check_canonical(turned)
        assert turned.values.dtype == np.float32
        assert turned.row_of([2]).tolist() == [1]
        assert turned.col_of(["b"]).tolist() == [1]

    def test_repr(self) -> None:
        assert repr(triplets()) == "ObservedMatrix 4 × 3, 5 observed (41.7 %)"
        assert repr(triplets(shape=(6040, 3706))) == "ObservedMatrix 6040 × 3706, 5 observed (2.2e-05 %)"
        assert repr(ObservedMatrix.from_any([[1]])) == "ObservedMatrix 1 × 1, 1 observed (100.0 %)"

    def test_read_only_and_picklable(self) -> None:
        data = triplets()
        with pytest.raises(AttributeError):
            data.shape = (1, 1)  # type: ignore[misc]
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(data)).to_dense(), DENSE)


def test_some_rows():
    X = np.array([[1.0, np.nan, 2], [np.nan, np.nan, np.nan], [np.nan, 3, 4], [5, np.nan, np.nan]])
    data = ObservedMatrix.from_any(X).weighted([1, 2, 3, 4, 5])
    for at in ([0, 2], [1], [3], [0, 1, 2, 3], []):
        some = data.some_rows(np.array(at, dtype=np.int64))
        np.testing.assert_array_equal(some.to_dense(), X[at])
        np.testing.assert_array_equal(
            some.weights, [w for i, w in zip([0, 0, 2, 2, 3], data.weights, strict=True) if i in at]
        )


def test_with_columns():
    """Entries find their columns by id, whatever the order."""
    data = ObservedMatrix.from_ratings(["a", "a", "b"], ["y", "x", "y"], [1.0, 2.0, 3.0])
    wide = data.with_columns(np.array(["z", "y", "w", "x"]))
    assert wide.shape == (2, 4)
    np.testing.assert_array_equal(wide.to_dense(), [[np.nan, 1, np.nan, 2], [np.nan, 3, np.nan, np.nan]])
    assert (np.diff(wide.index[:2]) > 0).all()
    with pytest.raises(ValueError, match="Unknown column id 'x'"):
        data.with_columns(np.array(["y"]))
    with pytest.raises(ValueError, match="no column ids"):
        ObservedMatrix.from_any(np.ones((2, 2))).with_columns(np.array(["y"]))


@pytest.mark.parametrize("format", ["csr", "csc", "bsr"])
@pytest.mark.parametrize(("array", "value"), [("indices", 99), ("indices", -7), ("indptr", 10**6), ("indptr", -5)])
def test_sparse_matrices_that_point_beyond_their_arrays_are_refused(format, array, value):
    X = sparse.csr_array(np.arange(20.0).reshape(4, 5)).asformat(format)
    getattr(X, array)[1 if array == "indptr" else 0] = value
    with pytest.raises(ValueError, match=r"of shape \(4, 5\) whose indptr or indices point beyond its arrays"):
        ObservedMatrix.from_any(X)


class TestArrays:
    def test_numpy_makes_a_dense_array(self) -> None:
        data = ObservedMatrix.from_any(DENSE)
        np.testing.assert_array_equal(np.asarray(data), DENSE)
        for got, expected in (
            (data > 1.5, DENSE > 1.5),
            (data >= 2, DENSE >= 2),
            (data < 1.5, DENSE < 1.5),
            (data <= 2, DENSE <= 2),
            (np.float64(1.5) < data, DENSE > 1.5),
        ):
            np.testing.assert_array_equal(got, expected)
        assert np.asarray(data, dtype=np.float32).dtype == np.float32
        if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
            with pytest.raises(ValueError, match="only by a copy"):
                np.array(data, copy=False)

    def test_an_array_that_would_be_very_large_is_refused(self) -> None:
        wide = ObservedMatrix.from_triplets([0], [1], [2.0], shape=(2_000_000, 2_000_000))
        with pytest.raises(ValueError, match=says("4e+12 entries", "X.to_csr()", "rslm.data.holdout", "X.to_dense()")):
            np.asarray(wide)
