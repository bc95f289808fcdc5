"""Wrong input is refused at once, and the message says what is wrong and what to do."""

import numpy as np
import pytest

from rslm import Problem, solve
from rslm.data import ObservedMatrix
from rslm.location import Effects, Location
from rslm.losses import Square
from rslm.measurements import Bilinear, Entries, Measurement, Samples, Tasks
from rslm.structures import Box, Hankel, Smooth, Symmetric

Y = np.arange(20.0).reshape(5, 4) % 7


def X(k=1, n=20, seed=0):
    return np.random.default_rng(seed).standard_normal((n, k))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"rows": -1}, ValueError, r"rows must be None, or a ridge from 0 \(not penalised\) to .*; got -1"),
        ({"columns": -0.1}, ValueError, "columns must be None, or a ridge"),
        ({"rows": np.nan}, ValueError, "rows must be None, or a ridge .* got nan"),
        ({"columns": np.inf}, ValueError, "columns must be None, or a ridge .* got inf"),
        ({"rows": "much"}, (TypeError, ValueError), "much"),
        ({"rows": True}, (TypeError, ValueError), "rows"),
        ({"mean": 1}, TypeError, "mean must be True or False; got 1"),
        ({"mean": None}, TypeError, "mean must be True or False; got None"),
        ({"mean": False}, ValueError, "a location needs a part"),
        ({"covariates": np.ones(20)}, ValueError, r"shape \(n_observations, k\); got float64 of shape \(20,\)"),
        ({"covariates": np.ones((20, 0))}, ValueError, r"shape \(n_observations, k\)"),
        ({"covariates": [["a"], ["b"]]}, ValueError, "covariates must be real numbers"),
        ({"covariates": X() + 1j}, ValueError, "covariates must be real numbers"),
        ({"covariates": np.where(X() > X().max() - 1e-9, np.nan, X())}, ValueError, r"covariates\[\d+, 0\] is nan"),
        ({"covariates": np.where(X() > X().max() - 1e-9, np.inf, X())}, ValueError, r"covariates\[\d+, 0\] is inf"),
    ],
)
def test_parts_of_a_location(arguments, error, message):
    with pytest.raises(error, match=message):
        Location(**arguments)


def collinear(kind):
    rows, columns = Entries(Y).places()
    rng = np.random.default_rng(1)
    return {
        "constant": np.full((20, 1), 3.0),
        "zero": np.zeros((20, 1)),
        "of rows": rng.standard_normal(5)[rows][:, None],
        "of columns": rng.standard_normal(4)[columns][:, None],
        "of both": (rng.standard_normal(5)[rows] + rng.standard_normal(4)[columns])[:, None],
        "of others": X(2) @ np.array([[1.0, 0.0, 1.0], [0.0, 1.0, -2.0]]),
    }[kind]


@pytest.mark.parametrize(
    ("kind", "location", "message"),
    [
        ("constant", {}, "covariate 0 is collinear with the mean"),
        ("zero", {"mean": False}, "covariate 0 is 0 everywhere"),
        ("of rows", {"rows": 0.0}, "covariate 0 is a combination of the mean and the row effects"),
        ("of columns", {"columns": 0.0}, "covariate 0 is a combination of the mean and the column effects"),
        (
            "of both",
            {"rows": 0.0, "columns": 0.0},
            "covariate 0 is a combination of the mean, the row effects and the column effects",
        ),
        ("of others", {}, "covariate 2 is a combination of the mean, covariate 0 and covariate 1"),
    ],
)
def test_collinear_covariates(kind, location, message):
    covariates = collinear(kind)
    with pytest.raises(ValueError, match=message):
        Problem(Square(), Entries(Y), location=Location(covariates=covariates, **location))
    for scale in (1e-6, 1e6):  # whatever their units
        with pytest.raises(ValueError, match=message):
            Problem(Square(), Entries(Y), location=Location(covariates=scale * covariates, **location))


@pytest.mark.parametrize("kind", ["of rows", "of columns", "of both"])
def test_penalties_make_coefficients_unique(kind):
    """A covariate that only effects with a penalty could replace is welcome."""
    location = Location(True, 0.5, 0.5, collinear(kind))
    result = solve(Problem(Square(), Entries(Y), location=location), 2, random_state=0, n_threads=1)
    assert result.converged


def test_covariates_with_missing_entries_and_sparse_patterns():
    """Alternating means find collinear covariates also where few entries are observed."""
    rng = np.random.default_rng(2)
    some = np.where(rng.random((30, 25)) < 0.15, rng.standard_normal((30, 25)), np.nan)
    rows, columns = Entries(some).places()
    both = (rng.standard_normal(30)[rows] + rng.standard_normal(25)[columns])[:, None]
    with pytest.raises(ValueError, match="a combination of the mean, the row effects and the column effects"):
        Problem(Square(), Entries(some), location=Location(True, 0.0, 0.0, both))
    Problem(Square(), Entries(some), location=Location(True, 0.0, 0.0, both + 1e-3 * X(1, len(rows))))


def test_covariates_of_tasks_without_penalty():
    """Common coefficients without a penalty can replace a covariate that is a combination of features."""
    features, of = X(3), np.sort(np.arange(20) % 4)  # observations are ordered by task
    with pytest.raises(ValueError, match="its coefficient is not determined"):
        Problem(Square(), Tasks(features, Y.ravel(), of), location=Location(True, 0.0, None, features[:, :1]))
    Problem(Square(), Tasks(features, Y.ravel(), of), location=Location(True, 0.0, None, X(1, seed=5)))


@pytest.mark.parametrize(
    ("problem", "error", "message"),
    [
        (lambda: Problem(Square(), Entries(Y), location="mean"), TypeError, "location must be None or a Location"),
        (
            lambda: Problem(Square(), Entries(Y), location=Location(covariates=X(1, 19))),
            ValueError,
            "a row for each of the 20 observations; got 19",
        ),
        (
            lambda: Problem(Square(), Entries(Y), Box(0.0, 9.0), location=Location(covariates=X())),
            ValueError,
            "bounds hold for all entries, but covariates are known only for the observed ones",
        ),
        (
            lambda: Problem(Square(), Samples(np.arange(8.0)), Hankel(4, 5), location=Location()),
            ValueError,
            "a location can be combined with bounds, but not with Hankel",
        ),
        (
            lambda: Problem(Square(), Entries(Y[:4]), Symmetric(4), location=Location()),
            ValueError,
            "a location can be combined with bounds, but not with Symmetric",
        ),
        (
            lambda: Problem(Square(), Entries(Y), Smooth(Smooth.path(5), Smooth.path(4)), location=Location()),
            ValueError,
            "a location can be combined with bounds, but not with Smooth",
        ),
        (
            lambda: Problem(Square(), Tasks(X(3), Y.ravel(), np.arange(20) % 4, intercept=True), location=Location()),
            ValueError,
            r"the data have intercepts; with a location, use Location\(columns=0\)",
        ),
        (
            lambda: Problem(Square(), Bilinear(Y, X(2, 5), X(2, 4)), location=Location()),
            ValueError,
            "mean and effects need entries, or tasks with features; got Bilinear",
        ),
        (
            lambda: Problem(Square(), Tasks(X(3), Y.ravel(), np.arange(20) % 4), Box(0.0, 1.0), location=Location()),
            ValueError,
            "bounds and a location need entries",
        ),
    ],
)
def test_combinations(problem, error, message):
    with pytest.raises(error, match=message):
        problem()


def test_the_mean_is_part_of_effects_without_penalty():
    for location in (Location(True, 0.0), Location(True, None, 0.0), Location(True, 0.0, 0.0)):
        assert not Problem(Square(), Entries(Y), location=location).location.mean
    assert Problem(Square(), Entries(Y), location=Location(True, 0.1, 0.1)).location.mean


# ---- weights of observations -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf, 0.0])
def test_weights_of_tasks(bad):
    weights = np.where(np.arange(20) == 7, bad, 1.0)
    with pytest.raises(ValueError, match=r"weights must be 20 positive numbers.*weights\[7\]"):
        Tasks(X(3), Y.ravel(), np.arange(20) % 4, weights=weights)
    with pytest.raises(ValueError, match="weights must be 20 positive numbers"):
        Tasks(X(3), Y.ravel(), np.arange(20) % 4, weights=np.ones(19))


class Own(Measurement):
    """Entries, as a measurement of one's own."""

    couples_columns = False

    def __init__(self, weights):
        self._of, self.values, self.weights = Entries(Y), Entries(Y).values, weights

    @property
    def shape(self):
        return 5, 4

    def apply(self, X, V, threads=1):
        return self._of.apply(X, V, threads)

    def adjoint(self, z):
        rows, columns = self._of.places()
        out = np.zeros((5, 4))
        out[rows, columns] = z
        return out


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf, 0.0])
def test_weights_that_are_set_by_hand(bad):
    """`weights` is an attribute of every measurement, so `Problem` looks at them."""
    weights = np.where(np.arange(20) == 7, bad, 1.0)
    entries = Entries(Y)
    entries.weights = weights
    for data in (entries, Own(weights)):
        with pytest.raises(ValueError, match=r"weights of observations must be positive and finite; weights\[7\] is"):
            Problem(Square(), data)
    for wrong in (np.ones(19), np.ones((20, 1)), [1.0] * 20, np.ones(20, dtype=complex)):
        entries = Entries(Y)
        entries.weights = wrong
        with pytest.raises((TypeError, ValueError), match="weights of observations must be an array of 20 numbers"):
            Problem(Square(), entries)


def test_weights_of_observed_matrices():
    rows, columns = np.nonzero(Y >= 0)
    for bad in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="weight"):
            ObservedMatrix.from_triplets(rows, columns, Y.ravel(), weights=np.where(rows == 2, bad, 1.0))
    left = ObservedMatrix.from_triplets(rows, columns, Y.ravel(), weights=np.where(rows == 2, 0.0, 1.0))
    assert len(Entries(left)) == 16  # an entry of weight 0 is left out


def test_effects_of_nothing():
    effects = Effects.none((3, 2), 4)
    assert (effects.mean, effects.rows.shape, effects.columns.shape, effects.coefficients.shape) == (
        0.0,
        (3,),
        (2,),
        (4,),
    )
    assert effects.cost(Location(True, 1.0, 1.0)) == 0.0
    twice = Effects(1.0, np.ones(3), np.ones(2), np.zeros(0)).scaled(2.0)
    assert twice.cost(Location(True, 0.5, 3.0)) == pytest.approx(0.5 * (0.5 * 12 + 3.0 * 8))


def test_locations_are_described():
    assert repr(Location(True, 0.5, 0.0)) == "Location(mean, rows=0.5, columns=0)"
    assert repr(Location(False, covariates=X(2))) == "Location(2 covariates)"
    assert repr(Location(True, 2.0, 1.0).scaled(3.0)) == "Location(mean, rows=6, columns=3)"
