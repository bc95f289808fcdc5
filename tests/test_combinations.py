"""Any loss, measurement and structure go together; see `combinations`, which runs all of the table."""

import itertools

import pytest

from combinations import LOSSES, MEASUREMENTS, SOLVERS, STRUCTURES, cell

# Every pair of a measurement and a structure, each with one of the losses, in turn.
PAIRS = list(itertools.product(MEASUREMENTS, STRUCTURES))
NAMES = list(LOSSES)
SOME = [
    (NAMES[(k + 3 * (k // len(NAMES))) % len(NAMES)], *pair, bool(k % 2), SOLVERS[(k // 2) % 2])
    for k, pair in enumerate(PAIRS)
]
SECONDS = {"trust-region": 2.0, "conjugate-gradient": 1.0}
SMOOTH = ("square", "huber", "logistic", "squared hinge")
NOT_ALL = ("free", "W ≥ 0", "bounds", "smooth")  # structures without parameters, which samples are observations of


@pytest.mark.parametrize(("loss", "measurement", "structure", "weighted", "solver"), SOME)
@pytest.mark.filterwarnings("ignore::UserWarning")  # CVXPY's, of accuracy
def test_solved_and_certified(loss, measurement, structure, weighted, solver):
    quick = solver == "trust-region" and loss in SMOOTH  # others may take longer than a test
    max_iter, max_time = 600, None if quick else SECONDS[solver]
    found = cell(loss, measurement, structure, weighted, solver, max_iter=max_iter, max_time=max_time)
    if measurement == "samples" and structure in NOT_ALL:
        assert found.outcome == "refused: samples are parameters of a linear structure, such as Hankel(window, windows)"
        return
    assert found.gradient < 1e-6
    assert found.hessian < 1e-5
    assert found.beyond < 1e-9
    assert found.below > -1e-6  # CVXPY's own accuracy
    assert found.above > -1e-6
    converged = found.outcome in ("certified", "stationary")
    assert converged or not quick
    # A fit that is stopped may have the answer of an earlier stage, where kinks are rounded more. On a busy machine the
    # time may be up although the process has had less of it.
    stopped = found.iterations >= max_iter or (max_time is not None and found.seconds >= 0.5 * max_time)
    if converged and not stopped:
        assert found.above < 2e-3  # with kinks, or at the tolerance of conjugate gradients


@pytest.mark.parametrize(
    ("loss", "measurement", "structure", "weighted"),
    [
        ("absolute", "entries", "W ≥ 0", False),  # most errors are at a kink, so that rounding decides the answer
        ("absolute", "tasks", "W ≥ 0", False),  # with bounds that stay soft, all errors would look like rounding errors
        ("absolute", "bilinear", "W ≥ 0", False),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")  # CVXPY's, of accuracy
def test_kinks_and_bounds_are_certified(loss, measurement, structure, weighted):
    """Within the iterations that take a second, not those that take a minute."""
    found = cell(loss, measurement, structure, weighted, "trust-region", max_iter=400, max_time=None)
    assert found.outcome == "certified"
    assert found.above < 2e-6
