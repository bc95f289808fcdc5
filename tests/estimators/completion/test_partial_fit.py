"""Streams of samples: near the batch fit, in memory that does not grow."""

import re
import signal

import numpy as np
import pytest
from sklearn.base import clone

import rslm
from plain import plain_completion
from rslm import InductiveCompletion, Objective, ObservedMatrix, Problem
from rslm.datasets import make_low_rank, make_ratings
from rslm.estimators.completion.stream import batches
from rslm.losses import Huber, Logistic, Square
from rslm.measurements import Entries

MADE = make_ratings(3000, 80, 60_000, rank=2, noise=0.4, random_state=0).data
C = 100.0


def part(data, first, last):
    at = slice(data.indptr[first], data.indptr[last])
    own = data.indptr[first : last + 1] - data.indptr[first]
    return ObservedMatrix(own, data.index[at], data.values[at], (last - first, data.shape[1]))


def streamed(data=MADE, step=1000, passes=1, **options):
    model = plain_completion(4, C, random_state=0, **options)
    for _ in range(passes):
        for start in range(0, data.shape[0], step):
            model.partial_fit(part(data, start, min(start + step, data.shape[0])))
    return model


def objective(model, data=MADE, loss=None):
    problem = Problem(loss or Square(), Entries.of_transposed(data), C=C)
    U = model.col_factors_
    return Objective(problem).evaluate(U / np.linalg.norm(U)).value


@pytest.mark.parametrize("loss", [Square(), Huber(0.5), Logistic()])
def test_near_the_batch_fit_and_nearer_after_two_passes(loss):
    data = MADE.with_values((MADE.values > 3.5).astype(float)) if loss.binary else MADE
    problem = Problem(loss, Entries.of_transposed(data), C=C)
    best = rslm.solve(problem, 4, random_state=0, tol=1e-4).value
    once, twice = (objective(streamed(data, passes=k, loss=loss), data, loss) / best - 1 for k in (1, 2))
    assert 0 < twice < once < 0.05


def test_the_curvature_is_that_of_the_preconditioner():
    rng = np.random.default_rng(0)
    for loss in (Square(), Huber(0.5)):
        p = rng.uniform(0.5, 2, 80)
        problem = Problem(loss, Entries.of_transposed(part(MADE, 0, 300)), C=C, row_weights=p)
        U = rng.standard_normal((80, 3))
        e = Objective(problem).evaluate(U / np.linalg.norm(U))
        rows, shift = e.row_curvature()
        eta = rng.standard_normal((80, 3))
        B = rows + shift * np.eye(3)
        np.testing.assert_allclose(e.preconditioner(np.einsum("ijk,ik->ij", B, eta)), eta, rtol=1e-8, atol=1e-10)


def test_how_samples_come_in_calls_does_not_matter():
    """Calls of whole batches are steps as one call is."""
    np.testing.assert_array_equal(streamed(step=3000).col_factors_, streamed(step=512).col_factors_)


def test_memory_does_not_grow(tmp_path):
    short, long = streamed(passes=1), streamed(passes=4)
    assert long.n_iter_ == 4 * short.n_iter_ == 24
    for name, model in (("short", short), ("long", long)):
        model.save(tmp_path / name)
    assert abs((tmp_path / "long").stat().st_size - (tmp_path / "short").stat().st_size) < 200  # digits of numbers
    assert len(long.history_["objective"]) == len(short.history_["objective"])
    assert long.row_factors_.shape == (1000, 4)  # of the last call


def test_what_can_be_done_with_it(tmp_path):
    model = streamed()
    assert (model.outcome_, model.converged_, model.n_iter_) == ("streaming", False, 6)
    assert "Not converged" in model.certificate_.verdict
    truth = make_low_rank(40, 80, 2, 1600, 1)[0]
    assert model.transform(truth).shape == (40, 80)
    assert np.shape(model.recommend_for(truth, 3)[0]) == (40, 3)
    last = part(MADE, 2000, 3000)
    found = model.predict(last.rows_of_entries(), last.index)
    assert np.sqrt(np.mean((found - last.values) ** 2)) < 0.5
    np.testing.assert_allclose(last.values - found, model.residuals_.values, atol=1e-12)
    model.save(tmp_path / "m")
    np.testing.assert_allclose(rslm.load(tmp_path / "m").transform(truth), model.transform(truth), atol=1e-12)


def test_a_stream_goes_on_from_a_file(tmp_path):
    model = plain_completion(4, C, random_state=0).partial_fit(part(MADE, 0, 1500))
    model.save(tmp_path / "m")
    kept = rslm.load(tmp_path / "m").partial_fit(part(MADE, 1500, 3000))
    model.partial_fit(part(MADE, 1500, 3000))
    np.testing.assert_array_equal(kept.col_factors_, model.col_factors_)
    assert kept.n_iter_ == model.n_iter_


def test_another_rank_is_refused():
    model = plain_completion(4, C, random_state=0).partial_fit(part(MADE, 0, 600))
    with pytest.raises(ValueError, match="learned at rank 4, but rank is 5 now"):
        model.set_params(rank=5).partial_fit(part(MADE, 600, 1200))


def test_a_batch_fit_polishes_it():
    model, cold = streamed(), plain_completion(4, C, random_state=0).fit(MADE)
    before = objective(model)
    model.set_params(warm_start=True).fit(MADE)
    assert model.converged_
    assert model.certificate_.primal == pytest.approx(cold.certificate_.primal, rel=1e-6)
    assert model.history_["objective"][0] == pytest.approx(before, rel=1e-9)  # it began where the stream had ended
    other = model.set_params(rank=3).fit(MADE)  # another rank begins anew
    assert other.row_factors_.shape[1] == 3


def test_a_fit_is_not_discarded_by_a_stream(tmp_path):
    model = plain_completion(4, C, random_state=0).fit(MADE)
    factors = model.col_factors_.copy()
    model.save(tmp_path / "m")
    for fitted in (model, rslm.load(tmp_path / "m"), streamed().fit(MADE)):
        with pytest.raises(ValueError, match=r"fitted by fit.*warm_start=True.*new model"):
            fitted.partial_fit(part(MADE, 0, 600))
    np.testing.assert_array_equal(model.col_factors_, factors)
    assert clone(model).partial_fit(part(MADE, 0, 600), None).n_iter_ == 2  # a new stream; y is ignored everywhere
    assert model.score(MADE, None) == model.score(MADE)


def test_samples_without_an_entry():
    data = ObservedMatrix(np.array([0, 0, 2, 2, 3, 3]), np.array([1, 2, 0], np.int32), np.ones(3), (5, 4))
    (only,) = batches(data)
    assert only.shape == (2, 4)
    np.testing.assert_array_equal(only.indptr, [0, 2, 3])
    assert list(batches(ObservedMatrix(np.zeros(4, np.int64), np.zeros(0, np.int32), np.zeros(0), (3, 4)))) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bounds": (0, 5)}, "no bounds"),
        ({"weighting": 0.5}, "counts of all entries"),
        ({"loss": "absolute"}, "kinks"),
        ({"rank": 60}, "at least as many as the rank"),
    ],
)
def test_what_a_stream_cannot_do(options, message):
    with pytest.raises(ValueError if "rank" in options else AttributeError, match=r"has no attribute|rank") as caught:
        plain_completion(**{"rank": 2, **options}).partial_fit(part(MADE, 0, 50))
    assert re.search(message, f"{caught.value} {caught.value.__cause__}")


def test_other_features_are_refused():
    model = streamed()
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(np.ones((600, 79)))


def test_only_where_it_makes_sense():
    assert not hasattr(InductiveCompletion(), "partial_fit")


def test_nothing_new_to_learn_from():
    model = streamed()
    before = model.col_factors_
    model.partial_fit(np.full((5, 80), np.nan))
    np.testing.assert_array_equal(model.col_factors_, before)
    with pytest.raises(ValueError, match="Nothing is observed"):
        plain_completion(2).partial_fit(np.full((5, 80), np.nan))


@pytest.mark.parametrize(("options", "message"), [({"rank": "x"}, "rank must be"), ({"C": "a"}, "C must be")])
def test_wrong_settings(options, message):
    with pytest.raises(ValueError, match=message):
        plain_completion(**options).partial_fit(part(MADE, 0, 600))


def test_an_interrupt_is_passed_on_and_leaves_the_state_whole(monkeypatch):
    """A loop over a stream is the user's: it must end."""
    model, whole = streamed(step=3000), streamed(step=3000)
    real = Objective.evaluate

    def interrupted(self, U):
        raise KeyboardInterrupt

    monkeypatch.setattr(Objective, "evaluate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(part(MADE, 0, 1000))
    monkeypatch.setattr(Objective, "evaluate", real)
    for m in (model, whole):
        m.partial_fit(part(MADE, 0, 1000))
    np.testing.assert_array_equal(model.col_factors_, whole.col_factors_)
    first = iter([True])
    monkeypatch.setattr(
        "rslm.estimators.completion.stream.Objective", lambda *a: next(first, None) and press_and_go(*a)
    )
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(part(MADE, 0, 1000))


def press_and_go(*arguments):
    signal.raise_signal(signal.SIGINT)  # nobody holds it back here
    return Objective(*arguments)


def test_bounds_hold_for_new_samples_too():
    model = plain_completion(3, 20.0, bounds=(0, 4), random_state=0)
    with pytest.warns(UserWarning, match="beyond the bounds"):
        model.fit(part(MADE, 0, 300))
    assert np.concatenate(model.recommend_for(part(MADE, 300, 400), 5)[1]).max() <= 4.0
