"""Weights of the entries in completion: every form, what they reach, and what is refused."""

import inspect

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.metrics import r2_score

from plain import RIDGES, plain_completion
from rslm import InductiveCompletion, MatrixCompletion, ObservedMatrix
from rslm.data.prepared.write import prepare
from rslm.measurements import Bilinear, Entries

RNG = np.random.default_rng(0)
TRUTH = RNG.standard_normal((30, 2)) @ RNG.standard_normal((2, 20))
KNOWN = RNG.random(TRUTH.shape) < 0.5
X = np.where(KNOWN, TRUTH + 0.3 * RNG.standard_normal(TRUTH.shape), np.nan)
WEIGHTS = np.where(KNOWN, RNG.integers(0, 4, TRUTH.shape), 7).astype(float)  # some are 0


def model(**options):
    return plain_completion(rank=2, C=10.0, random_state=0, **options)


def learned(fitted):
    return fitted.row_factors_ @ fitted.col_factors_.T


def same(one, other):
    np.testing.assert_array_equal(learned(one), learned(other))
    np.testing.assert_array_equal(one.residuals_.weights, other.residuals_.weights)
    np.testing.assert_array_equal(one.residuals_.values, other.residuals_.values)


def stored(weights=WEIGHTS):
    data = ObservedMatrix.from_any(X)
    return data.with_values(weights[data.rows_of_entries(), data.index]).to_csr()


FORMS = {
    "array": WEIGHTS,
    "entries": WEIGHTS[KNOWN],
    "list": WEIGHTS[KNOWN].tolist(),
    "DataFrame": pd.DataFrame(WEIGHTS),
    "sparse": stored(),
    "sparse columns": stored().tocsc(),
    "observed": ObservedMatrix.from_any(stored()),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form(form):
    expected = model().fit(ObservedMatrix.from_any(X).weighted(WEIGHTS))
    same(model().fit(X, sample_weight=FORMS[form]), expected)


@pytest.mark.parametrize("make", [lambda X: X, sparse.csr_array, ObservedMatrix.from_any])
def test_weight_0_is_the_entry_left_out(make):
    out = KNOWN & (RNG.random(X.shape) < 0.2)
    data = ObservedMatrix.from_any(X)
    given = {"csr_array": data.to_csr(), "from_any": data}.get(make.__name__, X)
    found = model().fit(given, sample_weight=np.where(out, 0.0, 1.0))
    without = model().fit(np.where(out, np.nan, X))
    same(found, without)
    assert found.certificate_.primal == without.certificate_.primal


@pytest.mark.parametrize(
    "estimator",
    [
        InductiveCompletion(rank=2, C=10.0, random_state=0),
        MatrixCompletion(rank=2, C=10.0, effects=RIDGES, random_state=0),
        MatrixCompletion(C=10.0, random_state=0, tol=1e-4),
    ],
)
def test_other_estimators(estimator):
    out = KNOWN & (RNG.random(X.shape) < 0.2)
    found = learned(estimator.fit(X, sample_weight=np.where(out, 0.0, 1.0)))
    np.testing.assert_array_equal(found, learned(estimator.fit(np.where(out, np.nan, X))))
    assert estimator.fit(X, sample_weight=WEIGHTS).residuals_.weights is not None


def test_streams():
    out = KNOWN & (RNG.random(X.shape) < 0.2)
    found = model().partial_fit(X, sample_weight=np.where(out, 0.0, 1.0))
    np.testing.assert_array_equal(learned(found), learned(model().partial_fit(np.where(out, np.nan, X))))
    assert model().partial_fit(X, sample_weight=WEIGHTS).residuals_.weights is not None


def test_one_weight_for_every_sample():
    by_sample = RNG.random(30) + 0.5
    same(
        model().fit(X, sample_weight=by_sample),
        model().fit(X, sample_weight=np.broadcast_to(by_sample[:, None], X.shape)),
    )


def test_as_many_samples_as_entries():
    """One of each is clear; otherwise it is not."""
    one_each = np.where(np.arange(3) == np.arange(4)[:, None] % 3, 1.0, np.nan)
    found = plain_completion(rank=1).fit(one_each, sample_weight=[1, 2, 3, 4])
    assert found.residuals_.weights.tolist() == [1, 2, 3, 4]
    unclear = np.array([[1.0, 2.0], [3.0, np.nan], [np.nan, np.nan]])
    with pytest.raises(ValueError, match="as many samples as observed entries: which are weighted"):
        plain_completion(rank=1).fit(unclear, sample_weight=[1, 2, 3])


def test_a_column_of_a_table(tmp_path):
    rows, cols = np.nonzero(KNOWN)
    table = pd.DataFrame({"user": rows, "item": cols, "rating": X[KNOWN], "trust": WEIGHTS[KNOWN]})
    table.to_csv(tmp_path / "t.csv", index=False)
    expected = model().fit(ObservedMatrix.from_ratings(rows, cols, X[KNOWN], weights=WEIGHTS[KNOWN]))
    same(model().fit(tmp_path / "t.csv", sample_weight="trust"), expected)
    with pytest.raises(ValueError, match="has no column 'faith'"):
        model().fit(tmp_path / "t.csv", sample_weight="faith")
    prepare(tmp_path / "t.csv", tmp_path / "folder", weights="trust")
    found = model().fit(tmp_path / "folder")
    np.testing.assert_allclose(learned(found), learned(expected), rtol=0, atol=1e-6)  # both converge to tol
    np.testing.assert_array_equal(found.residuals_.weights, expected.residuals_.weights)
    with pytest.raises(ValueError, match="X has weights already, and sample_weight was given as well"):
        model().fit(tmp_path / "folder", sample_weight=np.ones(KNOWN.sum()))
    with pytest.raises(ValueError, match="prepared data, to which weights does not apply"):
        model().fit(tmp_path / "folder", sample_weight="trust")


def test_refused():
    data = ObservedMatrix.from_any(X)
    with pytest.raises(ValueError, match="X has weights already"):
        model().fit(data.weighted(WEIGHTS), sample_weight=WEIGHTS)
    i, j = np.argwhere(KNOWN)[4]
    with pytest.raises(ValueError, match=f"the first is -3 at row {i}, column {j}. A weight must be a finite number"):
        model().fit(X, sample_weight=np.where((np.arange(30)[:, None] == i) & (np.arange(20) == j), -3.0, 1.0))
    with pytest.raises(ValueError, match=f"sample_weight has shape \\(7,\\), but {KNOWN.sum()} entries are observed"):
        model().fit(X, sample_weight=np.ones(7))
    with pytest.raises(ValueError, match="another pattern than X"):
        model().fit(X, sample_weight=sparse.csr_array(np.ones(X.shape)))
    with pytest.raises(ValueError, match="weights are zero, so nothing is observed"):
        model().fit(X, sample_weight=np.zeros(X.shape))
    with pytest.raises(TypeError, match="the text 'trust', but numbers are needed"):
        model().fit(X, sample_weight="trust")


def test_input_and_parameters_are_unchanged():
    given = WEIGHTS.copy()
    model().fit(X, sample_weight=given)
    np.testing.assert_array_equal(given, WEIGHTS)
    assert list(inspect.signature(MatrixCompletion.fit).parameters)[1:4] == ["X", "y", "sample_weight"]


def test_scores():
    fitted = model().fit(X)
    y, w = X[KNOWN], learned(fitted)[KNOWN]
    weights = WEIGHTS[KNOWN]
    assert fitted.score(X, sample_weight=WEIGHTS) == pytest.approx(r2_score(y, w, sample_weight=weights), abs=1e-12)
    assert fitted.score(X, sample_weight=weights) == fitted.score(ObservedMatrix.from_any(X).weighted(WEIGHTS))
    assert fitted.score(X, sample_weight=1e300 * WEIGHTS) == pytest.approx(fitted.score(X, sample_weight=WEIGHTS))
    assert fitted.score(X, sample_weight=np.ones(X.shape)) == fitted.score(X)
    classes = model(loss="logistic").fit(np.where(KNOWN, X > 0, np.nan))
    right = (learned(classes)[KNOWN] > 0) == (y > 0)
    found = classes.score(np.where(KNOWN, X > 0, np.nan), sample_weight=WEIGHTS)
    assert found == pytest.approx(np.average(right, weights=weights), abs=1e-12)


def test_what_the_measurements_get():
    data = ObservedMatrix.from_any(X).weighted(WEIGHTS)
    for made in (Entries(data), Entries.of_transposed(data.transposed()), Bilinear(data), Bilinear(data).of_rows()):
        rows, cols = made.places()
        np.testing.assert_array_equal(made.weights, WEIGHTS[rows, cols])
        np.testing.assert_array_equal(made.values, X[rows, cols])
        assert "weights" in made.arrays()
        assert made.with_values(np.zeros(len(made))).weights is made.weights
    for made in (Entries(X), Bilinear(X)):
        assert made.weights is None
        assert "weights" not in made.arrays()
    turned = Entries.of_transposed(data)
    rows, cols = turned.places()
    np.testing.assert_array_equal(turned.weights, WEIGHTS[cols, rows])


def test_a_checkpoint_of_other_weights_is_refused(tmp_path):
    with pytest.warns(match="not converged"):
        model(max_iter=1).fit(X, sample_weight=WEIGHTS + 1, checkpoint=tmp_path / "c")
    with pytest.raises(ValueError, match=r"weights: \w+ in the checkpoint, \w+ now"):
        model().fit(X, sample_weight=2 * WEIGHTS + 2, checkpoint=tmp_path / "c")


def test_weights_are_those_of_the_objective():
    """With equal weights 3, C is three times as large."""
    found = model(tol=1e-10).fit(X, sample_weight=3.0)
    other = plain_completion(rank=2, C=30.0, random_state=0, tol=1e-10).fit(X)
    assert found.certificate_.primal == pytest.approx(other.certificate_.primal, rel=1e-9)
    np.testing.assert_allclose(learned(found), learned(other), atol=1e-5)


def test_a_large_weight_is_fitted():
    weights = np.ones(X.shape)
    i, j = np.argwhere(KNOWN)[0]
    weights[i, j] = 1e4
    assert abs(model().fit(X, sample_weight=weights).residuals_.to_dense()[i, j]) < 1e-2
