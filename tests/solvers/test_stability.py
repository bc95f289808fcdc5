"""A rounding error may decide which path a solver takes, but not where a converged fit ends.

The instruction sets of this machine add in different orders. Converged fits agree to 1e-9 in the objective and to 1e-6
of the scale of W, with losses that have kinks and with bounds too.
"""

import numpy as np
import pytest

from rslm import ObservedMatrix, Problem, kernels, solve
from rslm.inner.entries.coordinate_descent import CoordinateDescent
from rslm.losses import Absolute, EpsilonInsensitive, Hinge, Huber, Logistic, Quantile, Square
from rslm.measurements import Entries
from rslm.structures import Box

LOSSES = [Square(), Huber(0.5), Huber(0.02), Absolute(), EpsilonInsensitive(0.1), Quantile(0.3), Logistic(), Hinge()]
BOUNDS = {"free": None, "non-negative": Box(0, None), "within": Box(1, 5)}
CASES = [(loss, name) for loss in LOSSES for name in BOUNDS if not (loss.binary and name == "within")]


@pytest.fixture(autouse=True)
def same_set_afterwards():
    before = kernels.instruction_set()
    yield
    kernels.use_instruction_set(before)


def ratings(seed, binary=False):
    rng = np.random.default_rng(seed)
    n, m = rng.integers(20, 50), rng.integers(15, 30)
    W = 3 + rng.standard_normal((n, 2)) @ rng.standard_normal((2, m))
    i, j = np.nonzero(rng.random((n, m)) < 0.5)
    values = np.clip(W[i, j] + 0.2 * rng.standard_normal(len(i)), 1, 5)
    values = np.where(rng.random(len(i)) < 0.05, rng.uniform(1, 5, len(i)), values)
    return ObservedMatrix.from_triplets(i, j, np.where(values > 3, 1.0, -1.0) if binary else values, (n, m))


@pytest.mark.skipif(len(kernels.instruction_sets()) < 2, reason="one instruction set: nothing to compare")
@pytest.mark.parametrize("seed", [1, 7, 9])
@pytest.mark.parametrize(("loss", "bounds"), CASES, ids=lambda part: part if isinstance(part, str) else repr(part))
def test_instruction_sets_agree(loss, bounds, seed):
    rng = np.random.default_rng(seed)
    C, rank = float(10 ** rng.uniform(-1, 2)), int(rng.integers(1, 4))
    data = ratings(seed, loss.binary)
    results = []
    for name in kernels.instruction_sets():
        kernels.use_instruction_set(name)
        problem = Problem(loss, Entries.of_transposed(data), BOUNDS[bounds], C=C)
        results.append(solve(problem, rank, random_state=0))
    first = results[0]
    W = first.U @ first.V.T
    assert first.converged
    for result in results[1:]:
        assert result.converged
        assert result.certificate.primal == pytest.approx(first.certificate.primal, rel=1e-9)
        np.testing.assert_allclose(result.U @ result.V.T, W, rtol=0, atol=1e-6 * np.abs(W).max())


def test_the_preconditioner_does_not_hang_on_the_median_error():
    """Of an odd number of errors the median is one of them: a width that is just as large leaves it to rounding."""
    data, loss = ratings(0), Huber(0.5)
    if len(data) % 2 == 0:
        data = ObservedMatrix.from_triplets(data.rows_of_entries()[1:], data.index[1:], data.values[1:], data.shape)
    solver = CoordinateDescent(Problem(loss, Entries.of_transposed(data), C=5.0), 1)
    U = np.random.default_rng(0).standard_normal((data.shape[1], 2))
    solution = solver.solve(U / np.linalg.norm(U))
    broad = solution.broad_curvature_by_rows()
    original = solution.error.copy()
    for last_digits in range(-50, 51):
        solution.error = original * (1.0 + last_digits * 1e-15)
        np.testing.assert_array_equal(solution.broad_curvature_by_rows() > 0, broad > 0)
