"""What the methods of completion work on, how they are followed, and the gap by which they are judged."""

import numpy as np
import pytest

from paper.gap import relative_gap, trade
from paper.observed import Entries
from paper.record import Record
from rslm import Problem, solve
from rslm.losses import Square
from rslm.measurements import Entries as Measured
from tabular import mean_std, number, small, table


@pytest.fixture
def observed():
    rng = np.random.default_rng(0)
    W = rng.standard_normal((30, 3)) @ rng.standard_normal((3, 20)) + 0.1 * rng.standard_normal((30, 20))
    i, t = np.nonzero(rng.random(W.shape) < 0.5)
    return W, i, t, Entries.of(i, t, W[i, t], W.shape)


def dense(data, s):
    S = np.zeros(data.shape)
    i, t = data.columns.places()
    S[i, t] = s
    return S


def test_products(observed):
    W, _, _, data = observed
    rng = np.random.default_rng(1)
    left, right, s = rng.standard_normal((30, 4)), rng.standard_normal((20, 4)), rng.standard_normal(len(data.y))
    seen = dense(data, np.ones_like(s))
    S = dense(data, s)
    np.testing.assert_allclose(dense(data, data.y), W * seen)
    np.testing.assert_allclose(dense(data, data.at(left, right)), (left @ right.T) * seen)
    np.testing.assert_allclose(data.times(s, right), S @ right)
    np.testing.assert_allclose(data.transposed_times(s, left), S.T @ left)
    operator = data.operator(s, left, right)
    np.testing.assert_allclose(operator @ np.eye(20), S + left @ right.T)
    np.testing.assert_allclose(operator.T @ np.eye(30), (S + left @ right.T).T)
    np.testing.assert_allclose(dense(data.transposed, data.transposed.y), (W * seen).T)
    P, sigma, Q = data.singular_vectors(3)
    np.testing.assert_allclose(sigma, np.linalg.svd(W * seen, compute_uv=False)[:3], rtol=1e-5)  # svds has tol=1e-3
    np.testing.assert_allclose((W * seen) @ Q, P * sigma, atol=1e-2 * sigma[0])


def test_regressions(observed):
    W, _, _, data = observed
    left = np.random.default_rng(2).standard_normal((30, 4))
    V = data.regress(left, 0.3)
    seen = dense(data, np.ones_like(data.y)) > 0
    for t in range(20):
        X = left[seen[:, t]]
        np.testing.assert_allclose(V[t], np.linalg.solve(X.T @ X + 0.3 * np.eye(4), X.T @ W[seen[:, t], t]))


def test_the_clock_stops_while_an_iterate_is_scored(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("paper.record.time.process_time", lambda: now[0])

    def score(left, right):
        now[0] += 100.0
        return {"error": float(left[0, 0])}

    def method(record):
        for k in range(10):
            now[0] += 1.0
            record(np.full((1, 1), k), np.ones((1, 1)))

    record = Record(score, max_time=3.5).run(method)
    assert [p["seconds"] for p in record.points] == [1.0, 2.0, 3.0, 4.0]
    assert record.ended == "time limit"
    assert record.last[0] == 3.0
    assert Record(score).run(method).ended == "converged"


def test_gap_is_that_of_the_certificate(observed):
    _, _, _, data = observed
    C = 3.0
    result = solve(Problem(Square(), Measured.of_columns(data.columns, data.y), C=C), 20, random_state=0, tol=1e-10)
    assert result.certificate.relative_gap < 1e-8
    assert abs(relative_gap(data, result.U, result.V, C)) < 1e-8  # rounding errors of two sums of size 1
    # Away from the optimum, the lower bound is one of the same problem: it may not pass the optimum.
    W = 0.9 * result.V
    e = data.y - data.at(result.U, W)
    value = C * e @ e + 0.5 * np.linalg.norm(result.U @ W.T, "nuc") ** 2
    gap = relative_gap(data, result.U, W, C)
    assert value / (1.0 + gap) <= result.certificate.primal * (1.0 + 1e-9) < value


def test_trade(observed):
    """The optimum with a squared trace norm is one without the square, with the weight ‖W‖_* / C."""
    _, _, _, data = observed
    C = 3.0
    result = solve(Problem(Square(), Measured.of_columns(data.columns, data.y), C=C), 20, random_state=0)
    size = np.linalg.norm(result.U @ result.V.T, "nuc")
    weight = size / C
    # Optimality of squares + weight ‖W‖_*: the largest singular value of 2 (y − w) is the weight.
    S = dense(data, 2.0 * (data.y - data.at(result.U, result.V)))
    assert np.linalg.norm(S, 2) == pytest.approx(weight, rel=1e-5)  # the solver's relative gradient is 1e-6
    assert trade(result.U, result.V, weight) == pytest.approx(C)


def test_tables():
    assert table(["", "a"], [["x", 1]]) == "|  | a |\n| --- | ---: |\n| x | 1 |\n"
    assert mean_std([1.0, 3.0], 1) == "2.0 ± 1.0"
    assert mean_std([1.0], 2) == "1.00"
    assert mean_std([], 2) == "–"
    assert number(float("nan"), 2) == "–"
    assert small(0.00012) == "1.2e-04"
