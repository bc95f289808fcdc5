"""With a location and weights, no array in memory is as long as data that are mapped from files."""

import tracemalloc

import numpy as np
import pytest

from rslm import ObservedMatrix, Problem, solve
from rslm.evaluation import data_term, dual
from rslm.kernels import columns
from rslm.location import Location
from rslm.losses import Huber, Square
from rslm.measurements import Entries
from rslm.structures import Box

N, ROWS, COLUMNS = 300_000, 300, 3000
SMALL = 1 << 12  # entries that are summed at a time; usually more than this test has


@pytest.fixture(scope="module")
def mapped(tmp_path_factory):
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("mapped")
    at = np.sort(rng.choice(ROWS * COLUMNS, N, replace=False))
    index = (at % ROWS).astype(np.int32)
    values = 3 + rng.standard_normal(N) + 0.4 * rng.standard_normal(ROWS)[index]
    weights = rng.random(N) + 0.5

    def mapped(name, array):
        array.tofile(folder / name)
        return np.memmap(folder / name, array.dtype, "r", shape=array.shape)

    indptr = np.searchsorted(at, np.arange(COLUMNS + 1) * ROWS)
    return indptr, mapped("index", index), mapped("values", values.astype(np.float32)), mapped("weights", weights)


def peak(mapped, loss, box, location, weighted):
    """The memory of a fit, in numbers of eight bytes per observation."""
    indptr, index, values, weights = mapped
    data = ObservedMatrix(indptr, index, values, (COLUMNS, ROWS), weights=weights if weighted else None)
    problem = Problem(loss, Entries.of_transposed(data), box, C=0.1, location=location)
    _ = problem.data.columns.by_rows, problem.data.columns.row_order
    tracemalloc.start()
    try:
        solve(problem, 2, max_iter=2, random_state=0, n_threads=1)
        return tracemalloc.get_traced_memory()[1] / (8 * N)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("location", [Location(rows=2.0, columns=2.0), Location(rows=0.0, columns=0.0)], ids=repr)
@pytest.mark.parametrize(("loss", "box"), [(Square(), None), (Huber(0.5), None), (Square(), Box(0, 7))], ids=repr)
def test_memory(mapped, monkeypatch, loss, box, location):
    for module in (dual, data_term, columns):
        monkeypatch.setattr(module, "BLOCK", SMALL)
    monkeypatch.setattr("rslm.inner.entries.newton.PIECE", SMALL)
    plain = peak(mapped, loss, box, None, weighted=False)
    # V, factors and ridges of the columns are wider; an array as long as the data would be 1 more.
    assert peak(mapped, loss, box, location, weighted=True) < plain + 0.9
