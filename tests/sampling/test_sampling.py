"""Draws against the distributions that they are promised to come from."""

import numpy as np
import pytest
from scipy import sparse

from rslm.kernels import Columns
from rslm.runtime.threads import single_threaded_blas
from rslm.sampling import Chain, Coefficients, Conditional, Entries, Hyperprior, NormalPrior, State, balanced, chain

SIGMAS = 4.5  # of the error of a mean of draws: 7e-6 of all right answers are beyond, and the seeds are fixed


@pytest.fixture(autouse=True)
def one_thread_for_blas():
    """As in a fit; many threads for tiny matrices take long."""
    with single_threaded_blas():
        yield


def entries(shape, counts, weighted=False, seed=0):
    """Entries of random places; the first column has none."""
    rng = np.random.default_rng(seed)
    index = [np.sort(rng.choice(shape[0], n, replace=False)) for n in counts]
    pattern = Columns(np.concatenate([[0], np.cumsum(counts)]), np.concatenate(index).astype(np.int32), shape[0])
    weight = rng.uniform(0.5, 3.0, pattern.entries) if weighted else None
    return Entries(pattern, rng.standard_normal(pattern.entries), weight)


def prior_of(k, seed=1):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((k, k + 2))
    return NormalPrior(rng.standard_normal(k), root @ root.T)


def closed_form(e, prior, rows, noise, effects):
    """Mean and covariance of the coefficients of every column, by the textbook."""
    X, offset = rows.design(effects)
    for t in range(e.pattern.shape[1]):
        at = slice(e.pattern.indptr[t], e.pattern.indptr[t + 1])
        A, w = X[e.pattern.index[at]], np.ones(at.stop - at.start) if e.weight is None else e.weight[at]
        precision = prior.precision + (A.T * w) @ A / noise**2
        left = e.y[at] - offset[e.pattern.index[at]]
        yield np.linalg.solve(precision, prior.precision @ prior.mean + A.T @ (w * left) / noise**2), precision


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("effects", "offsets"), [(True, True), (False, True), (True, False), (False, False)])
def test_coefficients_given_the_rest(effects, offsets, weighted):
    e = entries((7, 9), [0, 1, 3, 7, 2, 5, 7, 4, 6], weighted)
    rng, rank = np.random.default_rng(2), 2
    rows = Coefficients(rng.standard_normal((7, rank)), rng.standard_normal(7) if offsets else None)
    prior, noise = prior_of(rank + effects), 0.7
    found = Conditional.of(e, prior, rows, noise, effects, 2)
    expected = list(closed_form(e, prior, rows, noise, effects))
    # Rounding errors times the condition numbers of the systems, which are below 1e3.
    np.testing.assert_allclose(found.mean(), [mean for mean, _ in expected], atol=1e-11)
    n, k = 4000, rank + effects
    draws = np.array([found.drawn(rng, 1) for _ in range(n)])
    for t, (mean, precision) in enumerate(expected):
        # In these coordinates draws are independent and standard normal; the errors of means and squares follow.
        standard = (draws[:, t] - mean) @ np.linalg.cholesky(precision)
        assert np.abs(standard.mean(axis=0)).max() < SIGMAS / np.sqrt(n)
        assert np.abs(standard.T @ standard / n - np.eye(k)).max() < SIGMAS * np.sqrt(2 / n)


@pytest.mark.parametrize("weighted", [False, True])
def test_entries_predicted_from_the_others(weighted):
    e = entries((7, 6), [0, 1, 3, 7, 2, 5], weighted)
    rng = np.random.default_rng(2)
    rows, prior, noise = Coefficients(rng.standard_normal((7, 2)), rng.standard_normal(7)), prior_of(3), 0.7
    found = Conditional.of(e, prior, rows, noise, True, 1).left_out(1)
    X, offset = rows.design(True)
    for p in range(e.pattern.entries):
        t, i = np.searchsorted(e.pattern.indptr, p, side="right") - 1, e.pattern.index[p]
        weight = np.ones(e.pattern.entries) if e.weight is None else e.weight.copy()
        weight[p] = 0.0
        mean, _ = list(closed_form(Entries(e.pattern, e.y, weight), prior, rows, noise, True))[t]
        assert found[p] == pytest.approx(offset[i] + X[i] @ mean, abs=1e-10)  # rounding times condition, below 1e4


def test_priors_given_coefficients():
    """Expectations of a normal–Wishart distribution with the usual formulas."""
    rng, count, k, n = np.random.default_rng(0), 6, 3, 10_000
    table, hyper = rng.standard_normal((count, k)) + np.array([3.0, 0, 0]), Hyperprior(np.array([0.5, 1.0, 2.0]))
    drawn = [hyper.drawn(table, rng) for _ in range(n)]
    centre = table.mean(axis=0)
    scatter = np.diag(k * hyper.sizes**2) + (table - centre).T @ (table - centre)
    scatter += count / (1 + count) * np.outer(centre, centre)  # one row at 0
    precision = (k + count) * np.linalg.inv(scatter)
    found = np.array([prior.precision for prior in drawn])
    error = found.std(axis=0) / np.sqrt(n)
    assert (np.abs(found.mean(axis=0) - precision) < SIGMAS * error).all()
    # Variances of a Wishart matrix: ν (Wᵢⱼ² + Wᵢᵢ Wⱼⱼ), known here to about 4 %.
    W = np.linalg.inv(scatter)
    variance = (k + count) * (W**2 + np.outer(np.diag(W), np.diag(W)))
    np.testing.assert_allclose(found.var(axis=0), variance, rtol=0.1)
    means = np.array([prior.mean for prior in drawn])
    roots = [np.linalg.cholesky(prior.precision) for prior in drawn]
    standard = np.array([(m - count / (1 + count) * centre) @ L for m, L in zip(means, roots, strict=True)])
    assert np.abs(standard.mean(axis=0)).max() < SIGMAS / np.sqrt(n * (1 + count))
    assert np.abs(standard.T @ standard * (1 + count) / n - np.eye(k)).max() < SIGMAS * np.sqrt(2 / n)


def test_the_joint_distribution(monkeypatch):
    """Geweke's test: values drawn anew after every sweep leave everything as the priors alone have it.

    A wrong conditional distribution, of anything, would change some of the means below.
    """
    monkeypatch.setattr(chain, "LEAST", 0.5)  # with less noise, values and coefficients would hardly move
    monkeypatch.setattr(chain, "COUNT", 4.0)
    rng, n = np.random.default_rng(3), 4000
    e = entries((4, 3), [2, 4, 3], weighted=True)

    def noise():
        return np.sqrt(4.0 * 0.5**2 / rng.chisquare(4.0))

    def coefficients(count, effects):
        """From the hyperprior: a prior, then coefficients."""
        hyper = Hyperprior.usual(1, effects)
        k = len(hyper.sizes)
        prior = prior_alone(hyper, k, rng)
        factors = np.linalg.inv(np.linalg.cholesky(prior.precision))
        table = prior.mean + rng.standard_normal((count, k)) @ factors
        return Coefficients(table[:, :1], table[:, 1] if effects else None)

    def observed(state):
        left, right = state.joined()
        e_left, t = left[e.pattern.index], np.repeat(np.arange(3), np.diff(e.pattern.indptr))
        noise_ = state.noise / np.sqrt(e.weight) * rng.standard_normal(e.pattern.entries)
        return np.einsum("pk,pk->p", e_left, right[t]) + noise_

    def measured(state):
        """Bounded functions, as the distributions have heavy tails."""
        left, right = state.joined()
        W = np.tanh(left @ right.T)
        parts = state.rows.factors, state.rows.effects, state.columns.factors
        sizes = [np.tanh(np.log(np.mean(part**2))) for part in parts]
        return [np.tanh(np.log(state.noise)), *sizes, W[0, 0], W[0, 0] ** 2, W[3, 2] ** 2, W[0, 0] * W[0, 1]]

    alone = np.array([measured(State(coefficients(4, True), coefficients(3, False), noise())) for _ in range(n)])
    state = State(coefficients(4, True), coefficients(3, False), noise())
    drawing = Chain(e, state, rng, 1)
    chained = []
    for _ in range(n):
        y = observed(drawing.state)
        drawing._entries.y[:] = y
        drawing._by_rows.y[:] = y[e.pattern.row_order]
        chained.append(measured(drawing.sweep()))
    batches = np.array(chained).reshape(40, -1, alone.shape[1]).mean(axis=1)  # longer than the chain remembers
    error = np.hypot(batches.std(axis=0, ddof=1) / np.sqrt(40), alone.std(axis=0) / np.sqrt(n))
    assert (np.abs(batches.mean(axis=0) - alone.mean(axis=0)) < SIGMAS * error).all()


def prior_alone(hyper, k, rng):
    """A prior from the hyperprior: Λ is Wishart with k degrees of freedom."""
    root = rng.standard_normal((k, k)) / (np.sqrt(k) * hyper.sizes)
    precision = root.T @ root
    return NormalPrior(np.linalg.inv(np.linalg.cholesky(precision)).T @ rng.standard_normal(k), precision)


@pytest.mark.parametrize("rank", [1, 3, 127, 130])
def test_the_number_of_threads_does_not_change_a_bit(rank):
    counts = np.random.default_rng(0).integers(0, 40, 300)
    e = entries((40, 300), counts, weighted=True)
    rng = np.random.default_rng(1)
    start = State(
        Coefficients(rng.standard_normal((40, rank)), rng.standard_normal(40)),
        Coefficients(rng.standard_normal((300, rank)), None),
        1.0,
    )
    found = []
    for threads in (1, 2, 3):
        drawing = Chain(e, start, np.random.default_rng(5), threads)
        states = [drawing.sweep() for _ in range(3)]
        found.append(b"".join(s.rows.table.tobytes() + s.columns.table.tobytes() for s in states))
    assert found[0] == found[1] == found[2]


def test_balanced_factors():
    rng = np.random.default_rng(0)
    rows, columns = rng.standard_normal((30, 3)) * [1.0, 100.0, 0.0], rng.standard_normal((20, 3))
    left, right = balanced(rows, columns, rng)
    usual = Hyperprior.usual(3, False).sizes[0]
    size = np.sqrt(np.mean(left**2, axis=0))
    np.testing.assert_allclose(size[:2], np.sqrt(np.mean(right**2, axis=0))[:2], rtol=1e-12)  # rounding
    np.testing.assert_allclose(left[:, :2] @ right[:, :2].T, rows @ columns.T, atol=1e-12 * 1e3)  # of numbers below 1e3
    assert 0.01 * usual < size[2] < usual  # the coordinate that was 0 can move


def test_a_chain_finds_the_matrix():
    """Rank 2, noise 0.1: the mean of the draws is within about the noise of the truth, and says how far."""
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 50))
    seen = rng.random(truth.shape) < 0.5
    noisy = sparse.csc_array(np.where(seen, truth + 0.1 * rng.standard_normal(truth.shape), 0.0))
    e = Entries(Columns(noisy.indptr, noisy.indices, 60), noisy.data, None)
    start = State(*(Coefficients(0.3 * rng.standard_normal((n, 2)), None) for n in (60, 50)), 1.0)
    drawing = Chain(e, start, rng, 1)
    states = [drawing.sweep() for _ in range(300)][100:]
    W = np.array([s.rows.factors @ s.columns.factors.T for s in states])
    assert np.mean([s.noise for s in states]) == pytest.approx(0.1, rel=0.1)  # 1500 entries, 220 coefficients: 2 %
    standard = ((W.mean(axis=0) - truth) / W.std(axis=0))[~seen]
    assert 0.8 < np.sqrt(np.mean(standard**2)) < 1.25  # of 1500 errors that share 220 coefficients
