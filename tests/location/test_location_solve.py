"""Solving with a location: weights, scales, starts, checkpoints, interrupts, and data that leave little to solve."""

import signal

import numpy as np
import pytest
from location_oracle import objective, predictions
from locations import table

from rslm import Objective, Problem, solve
from rslm.evaluation.data_term import term_of
from rslm.kernels import Columns
from rslm.location import Effects, Location
from rslm.losses import Absolute, Huber, Logistic, Square
from rslm.measurements import Entries, Tasks
from rslm.solvers import Outcome, answer, loop
from rslm.structures import Box

ALL = Location(True, 0.7, 0.5)


def ratings(d=30, T=20, share=0.4, seed=0):
    rng = np.random.default_rng(seed)
    Y = table(rng, d, T, columns=0.7, low_rank=0.7, noise=0.3)
    return np.where(rng.random((d, T)) < share, Y, np.nan)


def solved(problem, rank=3, **how):
    return solve(problem, rank, **({"random_state": 0, "n_threads": 1} | how))


def same(one, other, tol, scale=1.0, shift=0.0):
    """Whether the predictions of two results agree up to a scale and a shift."""
    a, b = predictions(one), (predictions(other) - shift) / scale
    assert np.abs(a - b).max() <= tol * np.abs(a).max()


# ---- weights ---------------------------------------------------------------------------------------------------------


def entries_twice(data, chosen):
    """The same entries, where the `chosen` ones occur twice."""
    order = np.sort(np.concatenate([np.arange(len(data)), np.flatnonzero(chosen)]), kind="stable")
    counts = np.bincount(data.places()[1][order], minlength=data.shape[1])
    columns = Columns(np.concatenate([[0], np.cumsum(counts)]), data.columns.index[order], data.shape[0])
    return Entries.of_columns(columns, data.values[order])


@pytest.mark.parametrize("location", [ALL, Location(True, 0.0, 0.5), Location(True, 0.7, 0.0)], ids=repr)
@pytest.mark.parametrize("loss", [Square(), Huber(0.5), Logistic()], ids=repr)
def test_weight_2_is_the_entry_twice(loss, location):
    Y = ratings()
    once = Entries(np.where(np.isnan(Y), np.nan, np.sign(Y - 3.0)) if loss.binary else Y)
    chosen = np.random.default_rng(1).random(len(once)) < 0.4
    twice = entries_twice(once, chosen)
    once.weights = np.where(chosen, 2.0, 1.0)
    problems = [Problem(loss, data, C=0.5, location=location) for data in (once, twice)]
    rng = np.random.default_rng(2)
    U, b = rng.standard_normal((30, 3)), 0.3 * rng.standard_normal(30)
    at = [Objective(p, 1) for p in problems]
    effects = Effects(2.5, b, np.zeros(20), np.zeros(0))
    one, other = (o.evaluate(o.point(U / np.linalg.norm(U), effects)) for o in at)
    assert one.value == pytest.approx(other.value, rel=1e-12)
    starts = [term_of(p, 1).guess(1.0, effects)(U) for p in problems]
    np.testing.assert_allclose(starts[0], starts[1], rtol=1e-10, atol=1e-10 * np.abs(starts[1]).max())
    duals = [e.duals(p).gram(U) for e, p in zip((one, other), problems, strict=True)]  # made feasible
    np.testing.assert_allclose(duals[0], duals[1], rtol=0, atol=1e-5 * np.abs(duals[1]).max())  # CG to 1e-7
    d = len(b)  # the scales of effects are estimated from the observations, of which there are more
    gradients = [o.packing.gradient_parts(e.gradient) for o, e in zip(at, (one, other), strict=True)]
    for a, c in zip(*gradients, strict=True):
        np.testing.assert_allclose(a, c, atol=1e-10 * max(np.abs(gradients[0][0]).max(), 1.0))
    assert len(gradients[0][1]) == d
    results = [solved(p) for p in problems]
    assert results[0].certificate.primal == pytest.approx(results[1].certificate.primal, rel=1e-7)  # both stop at `tol`
    # The certificates are sums over the same dual variables.
    for dual in (r.certificate.dual for r in results):
        assert dual <= results[0].certificate.primal


def test_weight_2_is_the_row_of_a_task_twice():
    rng = np.random.default_rng(3)
    X, of, y = rng.standard_normal((30, 4)), np.arange(30) % 5, rng.standard_normal(30) + 2.0
    chosen = rng.random(30) < 0.5
    once = Tasks(X, y, of, weights=np.where(chosen, 2.0, 1.0))
    order = np.concatenate([np.arange(30), np.flatnonzero(chosen)])
    for loss in (Square(), Huber(0.5)):
        results = [
            solved(Problem(loss, data, C=0.5, location=ALL), 2, tol=1e-9)
            for data in (once, Tasks(X[order], y[order], of[order]))
        ]
        assert results[0].value == pytest.approx(results[1].value, rel=1e-12)


@pytest.mark.parametrize("loss", [Square(), Huber(0.5)], ids=repr)
def test_weights_times_a_number_are_c_times_it(loss):
    data = Entries(ratings())
    data.weights = np.random.default_rng(1).uniform(0.5, 2.0, len(data))
    other = Entries(ratings())
    other.weights = 4.0 * data.weights
    one, two = (solved(Problem(loss, e, C=C, location=ALL), tol=1e-9) for e, C in ((data, 2.0), (other, 0.5)))
    assert one.value == pytest.approx(two.value, rel=1e-12)


# ---- scale -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("location", [ALL, Location(), Location(True, 0.0, 0.5)], ids=repr)
@pytest.mark.parametrize(("scale", "shift"), [(1e-3, 0.0), (1e3, 0.0), (1.0, 1e4), (1e3, 1e4)])
def test_data_in_other_units(location, scale, shift):
    """With the square loss and the same C and ridges, the objective is multiplied by the square of the scale."""
    Y = ratings()
    one = solved(Problem(Square(), Entries(Y), C=0.5, location=location))
    other = solved(Problem(Square(), Entries(scale * Y + shift), C=0.5, location=location))
    assert one.converged
    assert other.converged
    assert other.certificate.primal == pytest.approx(scale**2 * one.certificate.primal, rel=1e-6)
    same(one, other, 1e-6, scale, shift)


def test_huber_and_bounds_in_other_units():
    Y = ratings()
    scale, shift = 1e-3, 1e2
    one, other = (
        solved(Problem(Huber(0.5 * s), Entries(s * Y + m), Box(s * 1.5 + m, s * 4.5 + m), C=0.5, location=ALL))
        for s, m in ((1.0, 0.0), (scale, shift))
    )
    # Soft bounds begin with a softness that does not know the units, and each path ends at its own relative gap.
    assert other.certificate.primal == pytest.approx(scale**2 * one.certificate.primal, rel=1e-5)
    same(one, other, 1e-3, scale, shift)


def test_single_precision():
    Y = ratings()
    one, other = (solved(Problem(Square(), Entries(y), C=0.5, location=ALL)) for y in (Y, Y.astype(np.float32)))
    assert other.certificate.primal == pytest.approx(one.certificate.primal, rel=1e-6)
    same(one, other, 1e-5)


def test_the_number_of_threads_does_not_change_a_bit():
    problem = Problem(Huber(0.5), Entries(ratings()), C=0.5, location=ALL)
    one, two = (solved(problem, n_threads=n) for n in (1, 2))
    assert one.point.tobytes() == two.point.tobytes()
    assert one.certificate.dual == two.certificate.dual


# ---- where to begin, checkpoints, interrupts -------------------------------------------------------------------------


def test_start():
    problem = Problem(Square(), Entries(ratings()), C=0.5, location=ALL)
    cold = solved(problem)
    warm = solved(problem, start=cold.point)
    assert warm.n_iter == 0
    assert warm.value == pytest.approx(cold.value, rel=1e-12)
    from_u = solved(problem, start=np.random.default_rng(1).standard_normal((30, 3)))
    assert from_u.certificate.primal == pytest.approx(cold.certificate.primal, rel=1e-6)
    for wrong in (np.ones((30, 4)), np.ones((31, 3)), np.full((30, 3), np.nan), np.full(cold.point.shape, np.nan)):
        with pytest.raises(ValueError, match="start must be"):
            solved(problem, start=wrong)
    with pytest.raises(ValueError, match="start must be"):
        solved(problem, start=np.zeros(cold.point.shape))


KINDS = {
    "square": lambda: Problem(Square(), Entries(ratings()), C=0.5, location=ALL),
    "huber": lambda: Problem(Huber(0.3), Entries(ratings()), C=0.5, location=Location(True, 0.0, 0.5)),
    "bounds": lambda: Problem(Square(), Entries(ratings()), Box(2.0, 4.0), C=0.5, location=ALL),
    "covariates": lambda: Problem(
        Square(), Entries(ratings()), C=0.5, location=Location(covariates=np.sin(np.arange(count()))[:, None])
    ),
}


def count():
    return int(np.isfinite(ratings()).sum())


@pytest.mark.parametrize("kind", KINDS)
def test_checkpoints_are_bitwise(kind, tmp_path):
    path = tmp_path / "fit.checkpoint"
    whole = solved(KINDS[kind](), checkpoint=tmp_path / "whole.checkpoint")
    for n in (1, 7):
        solved(KINDS[kind](), max_iter=n, checkpoint=path)
    end = solved(KINDS[kind](), checkpoint=path)
    assert end.point.tobytes() == whole.point.tobytes()
    assert end.V.tobytes() == whole.V.tobytes()
    assert end.effects.columns.tobytes() == whole.effects.columns.tobytes()
    assert end.n_iter == whole.n_iter
    again = solved(KINDS[kind](), checkpoint=path)
    assert again.point.tobytes() == whole.point.tobytes()


@pytest.mark.parametrize(
    ("location", "message"),
    [
        (None, "location"),
        (Location(True, 0.7), "location"),
        (Location(True, 0.7, 0.5 + 1e-12), "location"),
        (Location(True, 0.7, 0.5, np.cos(np.arange(count()))[:, None]), "location"),
    ],
)
def test_a_checkpoint_of_another_location_is_refused(location, message, tmp_path):
    path = tmp_path / "fit.checkpoint"
    solved(KINDS["square"](), max_iter=2, checkpoint=path)
    with pytest.raises(ValueError, match=message):
        solved(Problem(Square(), Entries(ratings()), C=0.5, location=location), checkpoint=path)


def test_a_checkpoint_of_other_covariates_is_refused(tmp_path):
    path = tmp_path / "fit.checkpoint"
    solved(KINDS["covariates"](), max_iter=2, checkpoint=path)
    location = Location(covariates=np.sin(0.1 + np.arange(count()))[:, None])
    with pytest.raises(ValueError, match="covariates"):
        solved(Problem(Square(), Entries(ratings()), C=0.5, location=location), checkpoint=path)


@pytest.mark.parametrize("max_time", [1e-9, 1e-3, 0.02])
@pytest.mark.parametrize("kind", [*KINDS, "absolute"])
def test_time_limit(kind, max_time):
    problem = Problem(Absolute(), Entries(ratings()), C=0.5, location=ALL) if kind == "absolute" else KINDS[kind]()
    result = solved(problem, max_time=max_time)
    assert result.outcome in (Outcome.TIME, Outcome.CERTIFIED, Outcome.STATIONARY)
    assert np.isfinite(result.value)
    assert result.effects is not None
    assert result.certificate.primal >= objective(problem, result) * (1 - 1e-9)
    assert result.certificate.dual <= result.certificate.primal
    if problem.structure.box is not None:
        assert predictions(result).min() >= 2.0 - 1e-9
        assert predictions(result).max() <= 4.0 + 1e-9


def test_a_callback_that_stops():
    for kind in KINDS:
        problem = KINDS[kind]()
        result = solved(problem, callback=lambda progress: progress.iteration >= 2)
        assert result.n_iter <= 2
        assert objective(problem, result) <= result.certificate.primal * (1 + 1e-9)


def test_iteration_limits():
    for kind in KINDS:
        problem = KINDS[kind]()
        values = [solved(problem, max_iter=n).certificate.primal for n in (0, 1, 100)]
        assert values[-1] <= values[0] * (1 + 1e-9)
        assert np.isfinite(values).all()


# ---- little to solve -------------------------------------------------------------------------------------------------

LOCATIONS = [Location(), ALL, Location(True, 0.0, 0.5), Location(True, 0.7, 0.0), Location(True, 0.0, 0.0)]


@pytest.mark.parametrize("location", LOCATIONS, ids=repr)
@pytest.mark.parametrize("loss", [Square(), Huber(0.5)], ids=repr)
def test_rows_and_columns_without_observations(loss, location):
    """They are predicted by what is left of the location: the mean, and the effects of the other side."""
    Y = ratings()
    Y[4], Y[:, 7] = np.nan, np.nan
    result = solved(Problem(loss, Entries(Y), C=0.5, location=location))
    assert result.converged
    W, effects = predictions(result), result.effects
    assert np.abs(result.left[4] @ result.V.T).max() <= 1e-6
    assert np.abs(result.V[7]).max() <= 1e-6
    if location.rows:
        assert abs(effects.rows[4]) <= 1e-9
    if location.columns:
        assert abs(effects.columns[7]) <= 1e-9
    low, high = np.nanmin(Y), np.nanmax(Y)
    assert ((W[4] > low) & (W[4] < high)).all()
    assert ((W[:, 7] > low) & (W[:, 7] < high)).all()


@pytest.mark.parametrize("bounds", [False, True])
@pytest.mark.parametrize("location", LOCATIONS, ids=repr)
def test_all_values_equal(location, bounds):
    Y = np.where(np.isnan(ratings()), np.nan, 3.0)
    result = solved(Problem(Square(), Entries(Y), Box(1.0, 5.0) if bounds else None, C=0.5, location=location))
    assert result.outcome is not Outcome.FAILED
    np.testing.assert_allclose(predictions(result), 3.0, atol=1e-6)
    assert result.certificate.primal <= 1e-10
    assert result.certificate.gap <= 1e-10


@pytest.mark.parametrize("location", LOCATIONS, ids=repr)
@pytest.mark.parametrize("loss", [Square(), Huber(0.5), Absolute(), Logistic()], ids=repr)
def test_two_observations(loss, location):
    Y = np.full((5, 4), np.nan)
    Y[0, 1], Y[3, 2] = (1.0, -1.0) if loss.binary else (2.0, 5.0)
    # An effect without penalty has no optimum if all its observations are of one class.
    result = solved(Problem(loss, Entries(Y), C=0.5, location=location), 2, max_iter=50)
    assert result.outcome is not Outcome.FAILED
    assert np.isfinite(predictions(result)).all()
    assert result.certificate.dual <= result.certificate.primal


def test_one_observation():
    Y = np.full((5, 4), np.nan)
    Y[0, 1] = 7.0
    result = solved(Problem(Square(), Entries(Y), C=0.5, location=ALL), 2)
    np.testing.assert_allclose(predictions(result), 7.0, atol=1e-6)


def test_one_row_and_one_column():
    rng = np.random.default_rng(0)
    for shape in ((1, 8), (8, 1), (1, 1)):
        for location in LOCATIONS:
            result = solved(Problem(Square(), Entries(3.0 + rng.standard_normal(shape)), C=0.5, location=location), 1)
            assert result.outcome is not Outcome.FAILED
            assert result.certificate.gap <= 1e-5 * max(result.certificate.primal, 1e-3)


def test_ranks_above_those_of_the_compiled_widths():
    """Effects take the place of two columns of U in the kernels, so that 127 is above them and 126 is not."""
    rng = np.random.default_rng(0)
    Y = 3.0 + rng.standard_normal((130, 130))
    problem = Problem(Square(), Entries(Y), C=1e-3, location=ALL)
    results = [solved(problem, rank, max_iter=20) for rank in (126, 127)]
    assert [r.U.shape for r in results] == [(130, 126), (130, 127)]
    assert results[1].certificate.primal == pytest.approx(results[0].certificate.primal, rel=1e-6)
    for result in results:
        assert result.certificate.dual <= result.certificate.primal


def test_tasks_with_few_rows():
    rng = np.random.default_rng(0)
    X, of = rng.standard_normal((6, 4)), np.arange(6) % 4
    for loss in (Square(), Huber(0.5)):
        for location in (Location(), ALL, Location(True, 0.7, 0.0)):
            result = solved(Problem(loss, Tasks(X, 3.0 + rng.standard_normal(6), of), C=0.5, location=location), 2)
            assert result.converged


# ---- Ctrl-C ----------------------------------------------------------------------------------------------------------


def pressed_at(number, function):
    """The function, with Ctrl-C pressed at its n-th call."""
    calls = []

    def watched(*arguments, **more):
        calls.append(1)
        if len(calls) == number:
            signal.raise_signal(signal.SIGINT)
        return function(*arguments, **more)

    return watched


@pytest.mark.parametrize(
    "where", [(Objective, "guess"), (loop.Loop, "stage"), (answer, "certify"), (loop, "Point")], ids=lambda w: w[1]
)
@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("kind", ["square", "bounds", "covariates"])
def test_interrupts(monkeypatch, kind, number, where):
    problem = KINDS[kind]()
    monkeypatch.setattr(*where, pressed_at(number, getattr(*where)))
    result = solved(problem)
    assert result.outcome in (
        Outcome.INTERRUPTED,
        Outcome.STATIONARY,
        Outcome.CERTIFIED,
    )  # it may come when all is done
    assert objective(problem, result) <= result.certificate.primal * (1 + 1e-9)
    if problem.structure.box is not None:
        assert predictions(result).min() >= 2.0 - 1e-9
        assert predictions(result).max() <= 4.0 + 1e-9
