"""Systems from records of inputs and outputs."""

import numpy as np
import pytest
from scipy.optimize import least_squares as scipy_least_squares
from scipy.signal import dlsim, dlti, lfilter

from rslm import HankelModel
from rslm.estimators.series.systems import System, identify, simulate
from rslm.estimators.series.systems.excitation import excitation
from rslm.estimators.series.systems.given import checked_inputs
from rslm.estimators.series.systems.least_squares import derivatives, eliminated, fit_for, refined
from rslm.estimators.series.systems.noise import Whitening, autoregression
from rslm.estimators.series.systems.pairs import pair_of
from rslm.estimators.series.systems.record import Record
from rslm.estimators.series.systems.recursion import states
from rslm.estimators.series.systems.subspace import from_impulse_response, from_windows, pair_from


def modal(rng, order, inputs=1, outputs=1):
    """A system with poles at moduli 0.6 … 0.95."""
    blocks = np.zeros((order, order))
    for k in range(0, order - 1, 2):
        r, w = rng.uniform(0.6, 0.95), rng.uniform(0.2, 2.5)
        blocks[k : k + 2, k : k + 2] = r * np.array([[np.cos(w), np.sin(w)], [-np.sin(w), np.cos(w)]])
    if order % 2:
        blocks[-1, -1] = rng.uniform(0.6, 0.9)
    B, C, D = (rng.standard_normal(s) for s in ((order, inputs), (outputs, order), (outputs, inputs)))
    empty = np.zeros((outputs, 0))
    return System(blocks, B, C, D, rng.standard_normal(order), rng.standard_normal(outputs), np.zeros(outputs), empty)


def coloured(rng, inputs, n):
    return lfilter([1.0], [1.0, -0.7], rng.standard_normal((inputs, n)))


def same_poles(a, b):
    """The largest distance of a pole of one system from the nearest one of the other."""
    distances = np.abs(a.poles[:, None] - b.poles)
    return max(distances.min(axis=0).max(), distances.min(axis=1).max())


def fit_of(y, simulated):
    return 1 - np.linalg.norm(y - simulated) / np.linalg.norm(y - y.mean())


# ---- parts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("order", "times"), [(1, 1), (3, 2), (4, 37), (2, 64), (0, 5)])
def test_states_are_those_of_a_loop(order, times):
    rng = np.random.default_rng(0)
    A, W = 0.6 * rng.standard_normal((order, order)), rng.standard_normal((2, order, times))
    X, x = np.zeros((2, order, times)), np.zeros((2, order))
    for t in range(times):
        X[:, :, t] = x
        x = x @ A.T + W[:, :, t]
    np.testing.assert_allclose(states(A, W), X, rtol=1e-10, atol=1e-12)  # rounding errors of sums in another order


def test_simulate_is_dlsim():
    rng = np.random.default_rng(0)
    system, U = modal(rng, 5, 2, 3), rng.standard_normal((2, 50))
    _, expected, _ = dlsim(dlti(system.A, system.B, system.C, system.D, dt=1), U.T, x0=system.x0)
    np.testing.assert_allclose(
        simulate(system, U, system.x0), expected.T + system.offset[:, None], rtol=1e-10, atol=1e-12
    )
    _, expected, _ = dlsim(dlti(system.A, system.B, system.C, system.D, dt=1), U.T)
    np.testing.assert_allclose(simulate(system, U), expected.T + system.offset[:, None], rtol=1e-10, atol=1e-12)


def test_impulse_response_is_that_of_scipy():
    system = modal(np.random.default_rng(1), 3, 2, 2)
    _, expected = dlti(system.A, system.B, system.C, system.D, dt=1).impulse(n=12)
    np.testing.assert_allclose(system.impulse_response(12), np.stack(expected, axis=-1), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("radius", [1.0, 1.1])
def test_a_pair_keeps_its_poles_and_is_orthonormal(radius):
    system = modal(np.random.default_rng(2), 5, 1, 2)
    pair = pair_of(system.A, system.C, radius)
    np.testing.assert_allclose(pair.M.T @ pair.M, np.eye(5), atol=1e-12)
    found, expected = (np.sort_complex(np.linalg.eigvals(A)) for A in (pair.A, system.A))
    np.testing.assert_allclose(found, expected, atol=1e-9)  # condition of the coordinates
    outside = pair_of(np.diag([1.5, 0.5]), np.ones((1, 2)), 1.0)
    np.testing.assert_allclose(np.sort(np.linalg.eigvals(outside.A)), [0.5, 1 / 1.5], atol=1e-9)


def autoregressive_covariance(ar, n):
    """Of a process that begins at zero, as the filter does."""
    L = np.eye(n)
    for k, a in enumerate(ar, 1):
        L -= a * np.eye(n, k=-k)
    return np.linalg.inv(L.T @ L)


@pytest.mark.parametrize("missing", [[], [0], [3, 4, 5, 9, 19], list(range(6, 18))])
def test_whitening_is_the_likelihood_of_what_was_seen(missing):
    rng = np.random.default_rng(3)
    ar, n = np.array([0.9, -0.5, 0.2]), 20
    seen = np.ones(n, dtype=bool)
    seen[missing] = False
    whitening = Whitening(seen, ar, 0.7)
    r = rng.standard_normal((n, 2))
    S = 0.7**2 * autoregressive_covariance(ar, n)[np.ix_(seen, seen)]
    white = whitening.apply(np.where(seen[:, None], r, 5.0))  # values at missing samples do not matter
    np.testing.assert_allclose(white.T @ white, r[seen].T @ np.linalg.solve(S, r[seen]), rtol=1e-9)
    assert whitening.log_determinant == pytest.approx(np.linalg.slogdet(S)[1], rel=1e-9)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_autoregressions_are_found(missing):
    rng = np.random.default_rng(4)
    r = lfilter([1.0], [1.0, -1.2, 0.6], rng.standard_normal(4000))
    r[rng.random(4000) < missing] = np.nan
    found = autoregression(r)
    np.testing.assert_allclose(
        found[:2], [1.2, -0.6], atol=0.1
    )  # standard deviation 0.013, more if samples are missing
    assert len(autoregression(rng.standard_normal(1000))) <= 1
    assert len(autoregression(np.zeros(100))) == 0


def example(rng, order, inputs, outputs, n=60, missing=0.0):
    """A record, its noise, and a pair some way from that of its system."""
    system, U = modal(rng, order, inputs, outputs), coloured(rng, inputs, n)
    Y = simulate(system, U, system.x0) + 0.2 * rng.standard_normal((outputs, n))
    Y[rng.random(Y.shape) < missing] = np.nan
    noise = tuple(Whitening(~np.isnan(y), np.array([0.5]), 1.0 + c) for c, y in enumerate(Y))
    away = system.A + 0.05 * rng.standard_normal((order, order))
    return Record(Y, U), noise, pair_of(away, system.C, 1.05)


@pytest.mark.parametrize(("inputs", "outputs", "missing"), [(1, 1, 0.0), (2, 1, 0.2), (1, 2, 0.0), (2, 3, 0.1)])
def test_derivatives_are_finite_differences(inputs, outputs, missing):
    record, noise, pair = example(np.random.default_rng(5), 4, inputs, outputs, missing=missing)
    fit, N = fit_for(pair, record, noise), pair.complement()
    J = derivatives(fit, record, noise, N)
    rows = len(J) - 4  # the last are those of x0

    def outputs_at(k):
        M = pair.M + N @ k.reshape(outputs, 4)
        moved = System(
            1.05 * M[outputs:],
            fit.driven[:, 1:],
            M[:outputs],
            fit.D,
            fit.driven[:, 0],
            fit.offset,
            *[None] * 2,
        )
        Y = simulate(moved, record.U, moved.x0)
        return np.concatenate([w.apply(y[:, None])[:, 0] for w, y in zip(noise, Y, strict=True)])

    for j in range(4 * outputs):
        step = 1e-5 * np.eye(4 * outputs)[j]
        difference = (outputs_at(step) - outputs_at(-step)) / 2e-5
        np.testing.assert_allclose(J[:rows, j], difference, rtol=1e-5, atol=1e-7 * np.abs(J).max())


@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (1, 2)])
def test_refined_is_the_optimum_of_all_parameters(inputs, outputs):
    """Brute force: SciPy on all entries of A, B, C, D, x0 and the offset, from the same start."""
    record, noise, pair = example(np.random.default_rng(6), 2, inputs, outputs, n=40)
    start = eliminated(pair, record, noise, np.zeros((0, 2)))
    fit = refined(start, record, noise, 100)
    shapes = [(2, 2), (outputs, 2), (2, 1 + inputs), (outputs, inputs), (outputs,)]
    ends = np.cumsum([int(np.prod(s)) for s in shapes])

    def errors(theta):
        A, C, xB, D, offset = (p.reshape(s) for p, s in zip(np.split(theta, ends[:-1]), shapes, strict=True))
        Y = simulate(System(A, xB[:, 1:], C, D, xB[:, 0], offset, *[None] * 2), record.U, xB[:, 0])
        white = [w.apply((y - s)[:, None])[:, 0] for w, y, s in zip(noise, record.Y, Y, strict=True)]
        return np.concatenate(white)

    parts = [pair.A, pair.C, start.driven, start.D, start.offset]
    brute = scipy_least_squares(errors, np.concatenate([p.ravel() for p in parts]), method="lm")
    assert start.cost > 1.01 * fit.cost
    assert fit.cost == pytest.approx(2 * brute.cost, rel=1e-6)  # both stop at relative decreases of 1e-8


@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_subspaces_are_exact_without_noise(inputs, outputs):
    rng = np.random.default_rng(7)
    system, U = modal(rng, 4, inputs, outputs), coloured(rng, inputs, 400)
    Y = simulate(system, U, system.x0) - system.offset[:, None]
    for space in (from_windows(Y, U, 8), from_impulse_response(Y, U, 8, 6)):
        poles = np.linalg.eigvals(pair_from(space, 4, outputs, 1.0).A)
        np.testing.assert_allclose(np.sort_complex(poles), np.sort_complex(system.poles), atol=1e-6)


# ---- the whole -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "inputs", "outputs"), [(1, 1, 1), (2, 1, 1), (5, 1, 1), (3, 2, 1), (4, 1, 2), (4, 2, 2)]
)
def test_a_system_without_noise_is_found_exactly(order, inputs, outputs):
    rng = np.random.default_rng(order)
    system, U = modal(rng, order, inputs, outputs), coloured(rng, inputs, 300)
    found = identify(simulate(system, U, system.x0), U)
    assert found.order == order
    assert same_poles(found, system) < 1e-6
    np.testing.assert_allclose(found.impulse_response(30), system.impulse_response(30), atol=1e-6)
    np.testing.assert_allclose(found.offset, system.offset, atol=1e-6)
    assert (found.noise < 1e-6).all()


def test_units_do_not_matter():
    rng = np.random.default_rng(8)
    system, U = modal(rng, 2), coloured(rng, 1, 200)
    Y = simulate(system, U, system.x0) + 0.1 * rng.standard_normal((1, 200))
    found, scaled = identify(Y, U), identify(1e6 * Y, 1e-3 * U)
    assert scaled.order == found.order == 2
    np.testing.assert_allclose(scaled.impulse_response(20), 1e9 * found.impulse_response(20), rtol=1e-4, atol=1e5)
    assert scaled.noise[0] == pytest.approx(1e6 * found.noise[0], rel=1e-4)


@pytest.mark.parametrize(("missing", "colour"), [(0.0, 0.0), (0.0, 0.9), (0.3, 0.0), (0.3, 0.9)])
def test_noise_white_or_not_and_missing_samples(missing, colour):
    rng = np.random.default_rng(9)
    system, U = modal(rng, 4), coloured(rng, 1, 1000)
    clean = simulate(system, U, system.x0)
    v = lfilter([1.0], [1.0, -colour], rng.standard_normal((1, 1000)))
    Y = clean + 0.2 * clean.std() * v / v.std()
    Y[rng.random(Y.shape) < missing] = np.nan
    found = identify(Y[:, :500], U[:, :500])
    assert found.order == 4
    assert found.noise[0] == pytest.approx(0.2 * clean.std(), rel=0.25)  # AR(0.9): some thirty independent samples
    assert fit_of(clean[0, 500:], simulate(found, U, found.x0)[0, 500:]) > 0.93  # noise is 0.2
    ar = found.noise_ar[0]
    assert (abs(ar[0] - colour) < 0.15) if colour else (len(ar) == 0)


def test_an_output_with_more_noise_counts_less():
    rng = np.random.default_rng(10)
    system, U = modal(rng, 2, 1, 2), coloured(rng, 1, 400)
    clean = simulate(system, U, system.x0)
    sizes = clean.std(axis=1) * [0.01, 2.0]
    found = identify(clean + sizes[:, None] * rng.standard_normal(clean.shape), U)
    np.testing.assert_allclose(found.noise, sizes, rtol=0.2)
    assert same_poles(found, system) < 0.01


def test_poles_leave_the_circle_only_if_the_data_insist():
    rng = np.random.default_rng(11)
    U = coloured(rng, 1, 300)
    growing = System(
        *(np.array([[x]]) for x in (1.02, 1.0, 1.0, 0.0)), np.ones(1), np.zeros(1), np.zeros(1), np.zeros((1, 0))
    )
    Y = simulate(growing, U, growing.x0)
    found = identify(Y + 0.1 * rng.standard_normal(Y.shape), U)
    assert found.order == 1
    assert found.poles[0].real == pytest.approx(1.02, abs=1e-3)
    walk = np.cumsum(rng.standard_normal((1, 300)), axis=1)  # noise, not unstable
    assert np.abs(identify(lfilter([0, 1.0], [1, -0.5], U) + 0.3 * walk, U).poles).max(initial=0.0) <= 1.0


def test_order_zero_if_the_output_does_not_follow():
    rng = np.random.default_rng(12)
    found = identify(rng.standard_normal((1, 300)), rng.standard_normal((1, 300)))
    assert found.order == 0
    assert simulate(found, np.ones((1, 4))).shape == (1, 4)
    constant = identify(np.full((1, 100), 3.0), rng.standard_normal((1, 100)))
    assert constant.order == 0
    assert constant.offset[0] == pytest.approx(3.0)
    U = coloured(rng, 1, 200)
    one_silent = identify(np.concatenate([lfilter([0, 1.0], [1, -0.9], U), np.zeros((1, 200))]), U)
    assert one_silent.order == 1
    assert np.abs(simulate(one_silent, U)[1]).max() < 1e-6


def test_an_order_that_is_given_is_kept():
    rng = np.random.default_rng(13)
    system, U = modal(rng, 4), coloured(rng, 1, 200)
    Y = simulate(system, U) + 0.5 * rng.standard_normal((1, 200))
    assert identify(Y, U, order=6).order == 6
    assert identify(Y, U, largest=1).order <= 1


def test_files_hold_systems():
    system = modal(np.random.default_rng(14), 3, 2, 2)
    arrays = system.to_arrays()
    back = System.from_arrays(arrays)
    assert all(np.array_equal(getattr(back, name), getattr(system, name)) for name in system.__dataclass_fields__)
    for name in arrays:
        with pytest.raises(ValueError, match="system_"):
            System.from_arrays(arrays | {name: np.full((7, 5, 3), 0.0)})
    with pytest.raises(ValueError, match="system_noise"):
        System.from_arrays(arrays | {"system_noise": np.array([-1.0, 0.0])})


# ---- bad input -------------------------------------------------------------------------------------------------------


def test_inputs_that_are_refused():
    good = np.arange(10.0)
    assert checked_inputs(good, 10).shape == (1, 10)
    assert checked_inputs(np.ones((10, 3))).shape == (3, 10)
    with pytest.raises(ValueError, match=r"u has 8 samples and y has 10, .* use y\[:8\]"):
        checked_inputs(good[:8], 10)
    with pytest.raises(ValueError, match=r"u has 10 samples and y has 8; use u\[:8\]"):
        checked_inputs(good, 8)
    with pytest.raises(TypeError, match=r"complex128.*two inputs"):
        checked_inputs(good + 1j, 10)
    with pytest.raises(TypeError, match="dtype <U1"):
        checked_inputs(["a"] * 10, 10)
    with pytest.raises(ValueError, match=r"u\[3, 1\] is nan, but every input must be known"):
        checked_inputs(np.where(np.arange(20).reshape(10, 2) == 7, np.nan, 1.0), 10)
    with pytest.raises(ValueError, match=r"shape \(n,\) or \(n, inputs\)"):
        checked_inputs(np.zeros((2, 2, 2)))


def test_inputs_that_show_too_little():
    rng = np.random.default_rng(15)
    Y, t = rng.standard_normal((1, 200)), np.arange(200)
    with pytest.raises(ValueError, match="u is constant, so it shows only the static gain"):
        identify(Y, np.full((1, 200), 0.1))
    with pytest.raises(ValueError, match="input 1 of u is constant"):
        identify(Y, np.stack([np.cos(t**1.3), np.ones(200)]))
    with pytest.raises(ValueError, match="like a single sinusoid"):
        identify(Y, np.cos(0.3 * t)[None])
    with pytest.raises(ValueError, match="follow from each other"):
        identify(Y, np.stack([np.cos(t**1.3), 2 * np.cos(t**1.3)]))
    with pytest.raises(ValueError, match="need at least 17"):
        identify(Y[:, :12], np.cos(t**1.3)[None, :12])
    with pytest.raises(ValueError, match="at least 1; got order=0"):
        identify(Y, np.cos(t**1.3)[None], order=0)
    with pytest.raises(ValueError, match="impulse in the first sample, put samples at rest in front"):
        identify(Y, (t == 0.0)[None].astype(float))
    with pytest.raises(ValueError, match="window must be from 2 to 24"):
        identify(Y, np.cos(t**1.3)[None], window=50)


def test_excitation_counts_frequencies():
    t = np.arange(200)
    sines = [np.cos(w * t + w) for w in (0.2, 0.9, 1.7)]
    assert [excitation(5 + np.sum(sines[:k], axis=0)[None], 20) for k in (1, 2, 3)] == [2, 4, 6]
    assert excitation(np.random.default_rng(0).standard_normal((2, 200)), 20) == 20
    assert excitation((t >= 50.0)[None].astype(float), 20) == 20  # a step within the record


def test_few_frequencies_limit_the_order_and_this_is_said():
    rng = np.random.default_rng(16)
    t = np.arange(400)
    U = np.sum([np.cos(w * t + w) for w in (0.2, 0.9, 1.7)], axis=0)[None]
    system = modal(rng, 6)
    with pytest.warns(UserWarning, match="the order is 2, not up to 6: u has few frequencies"):
        assert identify(simulate(system, U) + 0.01 * rng.standard_normal(U.shape), U, order=6).order == 2


def test_few_samples_limit_the_order_and_this_is_said():
    rng = np.random.default_rng(18)
    U = rng.standard_normal((1, 20))
    with pytest.warns(UserWarning, match="the order is 1, not up to 20: 20 samples"):
        assert identify(lfilter([0, 1.0], [1, -0.9], U) + 0.1 * rng.standard_normal(U.shape), U).order == 1


def test_simulate_refuses_other_shapes():
    system = modal(np.random.default_rng(17), 3, 2, 1)
    with pytest.raises(ValueError, match="the system has 2 inputs"):
        simulate(system, np.zeros((1, 5)))
    with pytest.raises(ValueError, match=r"x0 must have one number per state, shape \(3,\)"):
        simulate(system, np.zeros((2, 5)), np.zeros(2))
    growing = System(
        *(np.array([[x]]) for x in (2.0, 1.0, 1.0, 0.0)), np.ones(1), np.zeros(1), np.zeros(1), np.zeros((1, 0))
    )
    with pytest.raises(ValueError, match=r"overflows within 2000 samples.*modulus 2"):
        simulate(growing, np.ones((1, 2000)))


def test_the_verdict_on_a_static_gain_does_not_say_that_the_signal_is_zero():
    u = np.random.default_rng(0).standard_normal(100)
    model = HankelModel().fit(3.0 * u, u=u)
    assert model.rank_ == 0
    assert np.allclose(model.signal_, 3.0 * u)
    assert "gain" in model.verdict_
    assert "zero" not in model.verdict_


def test_huge_inputs_do_not_overflow():
    rng = np.random.default_rng(0)
    u = rng.standard_normal(200)
    y = lfilter([0.0, 1.0], [1.0, -0.8], u) + 0.01 * rng.standard_normal(200)
    assert HankelModel().fit(y, u=1e200 * u).poles_[0].real == pytest.approx(0.8, abs=0.01)
