"""No array in memory is as long as data that are mapped from files, and the answer is that of data in memory."""

import tracemalloc

import numpy as np
import pytest

from rslm import ImplicitCompletion, ObservedMatrix
from rslm.data import observed
from rslm.data import weights as weights_module
from rslm.estimators.implicit import confidence
from rslm.evaluation import all_entries, data_term, dual
from rslm.kernels import columns
from rslm.losses import checked
from rslm.measurements import base
from rslm.runtime import magnitudes

USERS, ITEMS, N = 4000, 300, 600_000
SMALL = 1 << 12  # entries that are processed at a time; usually more than this test has
GIVEN = {"rank": 2, "C": 1.0, "alpha0": 0.2, "weighting": 0.5}


def clicks(kind):
    rng = np.random.default_rng(0)
    at = np.sort(rng.choice(USERS * ITEMS, N, replace=False))
    index, indptr = (at % ITEMS).astype(np.int32), np.searchsorted(at, np.arange(USERS + 1) * ITEMS)
    values = np.ones(N) if kind == "ones" else rng.geometric(0.5, N) - float(kind == "counts and zeros")
    return ObservedMatrix(indptr, index, values.astype(np.float32), (USERS, ITEMS))


@pytest.fixture
def mapped(tmp_path):
    """The same entries in files."""

    def mapped(data):
        arrays = []
        for name in ("index", "values"):
            np.save(tmp_path / f"{name}.npy", getattr(data, name))
            arrays.append(np.load(tmp_path / f"{name}.npy", mmap_mode="r"))
        return ObservedMatrix(data.indptr, *arrays, data.shape)

    return mapped


@pytest.fixture(autouse=True)
def blocks(monkeypatch):
    for module in (observed, weights_module, confidence, all_entries, data_term, dual, columns, checked, base):
        monkeypatch.setattr(module, "BLOCK", SMALL)
    monkeypatch.setattr(magnitudes, "BLOCK", SMALL)


def peak(work):
    """The most memory that is allocated, in bytes per entry."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / N
    finally:
        tracemalloc.stop()


CASES = {
    "ones": ("ones", GIVEN),
    "log": ("counts", GIVEN),
    "linear, zeros": ("counts and zeros", GIVEN | {"confidence": "linear"}),
    "settings are found": ("counts", {"rank": 2, "metric": "recall@5"}),
}


@pytest.mark.parametrize("case", CASES)
def test_memory_and_answer(mapped, monkeypatch, case):
    monkeypatch.setattr("rslm.estimators.implicit.search.ENTRIES", SMALL)
    (kind, settings), data = CASES[case], clicks(CASES[case][0])
    disk, models = mapped(data), []

    def fit(X):
        models.append(ImplicitCompletion(**settings, random_state=0, n_threads=1, tol=1e-2).fit(X))

    # An array of positions would take four bytes; users, items and blocks take up to three here.
    assert peak(lambda: fit(disk)) < 4.0
    fit(data)
    on_disk, in_memory = models
    np.testing.assert_array_equal(on_disk.row_factors_, in_memory.row_factors_)
    assert on_disk.certificate_ == in_memory.certificate_
    if kind == "ones":
        assert on_disk.known_.values is disk.values
    assert on_disk.known_.index is disk.index or kind == "counts and zeros"
