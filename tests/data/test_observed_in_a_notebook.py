"""An observed matrix in a notebook."""

import re

import numpy as np
import pytest
from scipy import sparse

from rslm import ObservedMatrix
from rslm.data import shown
from rslm.data.shown import Overview


def test_facts_and_ids_which_are_escaped():
    data = ObservedMatrix.from_ratings(["<b>ann", "bob", "bob"], ["x" * 50, "x" * 50, "z"], [5.0, 4.0, -1.5])
    html = data._repr_html_()
    for fact in ("2 × 2", "3 (75.0 %)", "-1.5 to 5", "2.5", "&lt;b&gt;ann, bob", "x" * 24 + "…, z"):
        assert fact in html
    assert "<b>" not in html
    assert "x" * 25 not in html
    assert repr(data) == "ObservedMatrix 2 × 2, 3 observed (75.0 %)"


def test_every_entry_of_a_small_matrix_is_a_cell():
    X = np.array([[1.0, np.nan, 2.0], [np.nan, np.nan, 3.0]])
    seen = Overview.of(ObservedMatrix.from_any(X))
    np.testing.assert_array_equal(seen.cells, ~np.isnan(X))
    assert (seen.low, seen.high, seen.mean, seen.sampled) == (1.0, 3.0, 2.0, False)


@pytest.mark.parametrize("shape", [(397, 1003), (3, 5000), (5000, 3)])
def test_cells_have_the_density_of_their_part(shape):
    rng = np.random.default_rng(0)
    mask = rng.random(shape) < np.linspace(0, 0.5, shape[0])[:, None]
    values = np.where(mask, rng.standard_normal(shape), np.nan)
    seen = Overview.of(ObservedMatrix.from_any(values))
    rows, columns = (np.arange(min(n, 40) + 1) * n // min(n, 40) for n in shape)
    sums = np.add.reduceat(np.add.reduceat(mask, rows[:-1], 0, dtype=float), columns[:-1], 1)
    np.testing.assert_allclose(seen.cells, sums / np.outer(np.diff(rows), np.diff(columns)))
    np.testing.assert_allclose(seen.mean, np.nanmean(values))


def test_a_large_matrix_is_sampled(monkeypatch):
    X = sparse.csr_array(
        np.random.default_rng(0).random((2000, 300)) * (np.random.default_rng(1).random((2000, 300)) < 0.2)
    )
    data = ObservedMatrix.from_any(X)
    whole = Overview.of(data)
    monkeypatch.setattr(shown, "ENTRIES", 800)
    read = []

    class Counting(np.ndarray):
        def __getitem__(self, at):
            read.append(at.stop - at.start)
            return np.asarray(self)[at]

    seen = Overview.of(data.with_values(data.values.view(Counting)))
    assert seen.sampled
    assert sum(read) <= 40 * 800 < len(data)
    np.testing.assert_allclose(seen.cells.sum(1), whole.cells.sum(1), rtol=0.02)  # columns are of equal width, nearly
    # Standard deviations of the counts of a cell, about 800 / 40 = 20 entries, and of the mean of 32,000 values.
    np.testing.assert_allclose(seen.cells, whole.cells, rtol=0, atol=6 * 0.2 / np.sqrt(20))
    assert abs(seen.mean - whole.mean) < 5 * 0.29 / np.sqrt(32_000)
    html = data._repr_html_()
    assert "values in a sample" in html
    assert "mean, estimated" in html


def test_nothing_observed_and_weights():
    empty = ObservedMatrix.from_any(sparse.csr_array((3, 4)), allow_empty=True)
    assert "0 (0 %)" in empty._repr_html_()
    assert "<svg" not in empty._repr_html_()
    weighted = ObservedMatrix.from_triplets([0, 1], [0, 1], [1.0, 1.0], weights=[1.0, 2.0])
    assert re.search(r"weights</td><td>yes", weighted._repr_html_())


def test_entries_on_disk_stay_there(tmp_path):
    rng = np.random.default_rng(0)
    data = ObservedMatrix.from_any(np.where(rng.random((50, 30)) < 0.3, 1.5, np.nan))
    np.save(tmp_path / "v.npy", data.values)
    html = data.with_values(np.load(tmp_path / "v.npy", mmap_mode="r"))._repr_html_()
    assert html == data._repr_html_()
