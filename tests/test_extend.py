"""The parts in examples/extend, written outside the package: checked, solved, certified and compared with CVXPY."""

import importlib.util
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest

from rslm import Problem, solve
from rslm.losses import Huber, Square
from rslm.measurements import Entries
from rslm.testing import check_loss, check_measurement, check_structure

ROOT = Path(__file__).parent.parent


def part(name):
    """A module of examples/extend."""
    spec = importlib.util.spec_from_file_location(f"extend_{name}", ROOT / "examples" / "extend" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LogCosh, Differences, RowSums = part("loss").LogCosh, part("measurement").Differences, part("structure").RowSums
D, T, C = 4, 5, 2.0


def data(rng):
    W = rng.standard_normal((D, 2)) @ rng.standard_normal((2, T))
    Y = np.where(rng.random((D, T)) < 0.8, W, np.nan)
    first, column = rng.integers(D, size=40), rng.integers(T, size=40)
    second = (first + rng.integers(1, D, size=40)) % D
    return Y, Differences(first, second, column, W[first, column] - W[second, column], (D, T))


@pytest.mark.parametrize("name", ["loss", "measurement", "structure"])
def test_the_documentation_shows_these_very_files(name):
    source = (ROOT / "examples" / "extend" / f"{name}.py").read_text(encoding="utf-8")
    assert source in (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")


def test_their_checks():
    check_loss(LogCosh())
    check_measurement(data(np.random.default_rng(0))[1])
    check_structure(RowSums([1.0, 2.0, -1.0], 4))


def test_a_wrong_adjoint_is_found():
    class Wrong(Differences):
        def adjoint(self, z):
            return 2.0 * super().adjoint(z)

    good = data(np.random.default_rng(0))[1]
    with pytest.raises(AssertionError, match=r"adjoint of Wrong is wrong"):
        check_measurement(Wrong(good.first, good.second, good.column, good.values, good.shape))


def test_mistakes_are_named_before_the_fit():
    class WrongAdjoint(Differences):
        def adjoint(self, z):
            return 2.0 * super().adjoint(z)

    class WrongApply(Differences):
        def apply(self, X, V, threads=1):
            return list(super().apply(X, V))

    class WrongValues(Differences):
        def __init__(self, *args):
            super().__init__(*args)
            self.values = list(self.values)

    for kind, error, message in (
        (WrongAdjoint, ValueError, r"adjoint of WrongAdjoint.* is wrong: .* is \S+, but"),
        (WrongApply, ValueError, r"apply of WrongApply.* must return an array of 2 float64.*; got list"),
        (WrongValues, TypeError, r"values of WrongValues.* must be a 1-D array of floats; got list"),
    ):
        with pytest.raises(error, match=message):
            Problem(Square(), kind([0, 1], [1, 2], [0, 1], [1, 2], (4, 5)))


@pytest.mark.parametrize("measurement", ["entries", "differences"])
@pytest.mark.parametrize("structure", [None, "row sums"])
@pytest.mark.parametrize("loss", ["log cosh", "square", "huber"])
def test_solved_and_certified(loss, measurement, structure):
    rng = np.random.default_rng(1)
    Y, differences = data(rng)
    sums = rng.standard_normal(D)
    W, rules = cp.Variable((D, T)), []
    i, j = np.nonzero(~np.isnan(Y))
    if measurement == "entries":
        observed, y, w = Entries(Y), Y[i, j], cp.hstack([W[a, b] for a, b in zip(i, j, strict=True)])
    else:
        observed, y, pairs = (
            differences,
            differences.values,
            zip(differences.first, differences.second, differences.column, strict=True),
        )
        w = cp.hstack([W[a, t] - W[b, t] for a, b, t in pairs])
    if structure:
        rules = [cp.sum(W, axis=1) == sums]
    e = y - w
    misfit = {
        "log cosh": lambda: cp.sum(e + cp.logistic(-2 * e)) - len(y) * np.log(2),
        "square": lambda: cp.sum_squares(e),
        "huber": lambda: 0.5 * cp.sum(cp.huber(e, 0.5)),
    }[loss]()
    best = cp.Problem(cp.Minimize(C * misfit + 0.5 * cp.square(cp.norm(W, "nuc"))), rules).solve(solver=cp.CLARABEL)
    own = {"log cosh": LogCosh(), "square": Square(), "huber": Huber(0.5)}[loss]
    result = solve(Problem(own, observed, RowSums(sums, T) if structure else None, C=C), D, random_state=0)
    assert result.converged
    assert result.certificate.dual <= best * (1 + 1e-6)
    assert best * (1 - 1e-6) <= result.certificate.primal <= best * (1 + 1e-4)
    if structure:
        W = RowSums(sums, T).whole_matrix(result.parameters)
        np.testing.assert_allclose(W.sum(axis=1), sums, atol=1e-9)
