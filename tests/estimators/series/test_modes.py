"""Sums of exponentials: their poles, columns and derivatives, and the best fit near them."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from scipy.optimize import least_squares

from rslm.estimators.series.likelihood import channels_of, scored
from rslm.estimators.series.modes import modes_of, paired, powers
from rslm.estimators.series.subspace import (
    _by_ends,
    _by_windows,
    gram_of_windows,
    leading_space,
    poles_of,
    singular_space,
)
from rslm.estimators.series.variable_projection import Channels, fitted, refined
from rslm.estimators.series.whitening import Whitening

REAL = {
    "pairs and decay": [0.95 * np.exp(0.4j), 0.95 * np.exp(-0.4j), 0.5],
    "alternating": [-0.97 * np.exp(0.1j), -0.97 * np.exp(-0.1j), -0.5],
    "near real poles": [0.9, 0.88, 0.3],
    "double": [0.9, 0.9],
    "growing": [1.01 * np.exp(0.7j), 1.01 * np.exp(-0.7j), 1.02],
}
COMPLEX = [0.9 * np.exp(0.3j), np.exp(-0.7j), 0.5j]


def all_modes(n):
    yield from (modes_of(np.array(z, dtype=complex), n, False) for z in REAL.values())
    yield modes_of(np.array(COMPLEX), n, True)


@pytest.mark.parametrize("k", range(6))
def test_derivatives_are_those_of_finite_differences(k):
    n, rng = 40, np.random.default_rng(0)
    modes = list(all_modes(n))[k]
    a = rng.standard_normal(modes.order) + (1j * rng.standard_normal(modes.order) if modes.is_complex else 0.0)
    found = modes.slopes(modes.basis(n)) @ modes.mixing(a)
    for i, step in enumerate(1e-6 * np.eye(modes.parameters)):
        slope = (modes.moved(step, -1.0).basis(n) - modes.moved(-step, -1.0).basis(n)) @ a / 2e-6
        assert np.allclose(found[:, i], slope, atol=1e-6 * np.abs(found[:, i]).max())


@pytest.mark.parametrize("name", REAL)
def test_columns_span_the_exponentials(name):
    n, z = 30, np.array(REAL[name], dtype=complex)
    modes = modes_of(z, n, False)
    assert np.allclose(np.sort_complex(modes.poles()), np.sort_complex(z), atol=1e-7)  # √eps at a double pole
    if name != "double":
        B, P = modes.basis(n), np.vander(z, n, increasing=True).T
        assert np.allclose(B @ np.linalg.lstsq(B, P, rcond=None)[0], P, atol=1e-9)
    a = np.random.default_rng(0).standard_normal((modes.order, 2))
    poles, amplitudes = modes.exponentials(a, n)
    t, signal = np.arange(n)[:, None], 0.0
    for j, pole in enumerate(poles):
        earlier = np.sum(np.abs(poles[:j] - pole) < 1e-12)
        signal = signal + t**earlier * pole**t * amplitudes[j]
    assert np.allclose(signal, modes.basis(n) @ a, atol=1e-8)


def test_pairs_of_real_poles_are_joined_and_parted():
    near, far = (modes_of(np.array(z, dtype=complex), 100, False) for z in ([0.9, 0.89], [0.9, 0.3]))
    assert near.pair.tolist() == [True]
    assert far.pair.tolist() == [False, False]
    moved = near.moved(np.array([1.0, -0.9]), 0.0)
    assert paired(moved, 100).pair.tolist() == [False, False]
    assert np.allclose(np.sort(paired(moved, 100).poles()), np.sort(moved.poles()))


def test_powers():
    z = np.array([0.9, -0.5, 0.3 + 0.4j, 0.0, 1.0])
    assert np.allclose(powers(z, 11), z[None, :] ** np.arange(11)[:, None])
    assert powers(z, 1).shape == (1, 5)


@pytest.mark.parametrize("reflections", [[], [0.6, -0.2]])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_the_best_fit_is_that_of_a_general_solver(reflections, missing):
    n, rng = 60, np.random.default_rng(3)
    t = np.arange(n)
    z = np.array([0.97 * np.exp(0.5j), 0.97 * np.exp(-0.5j), 0.9])
    Y = np.stack([0.97**t * np.cos(0.5 * t) + 0.9**t, 0.97**t * np.sin(0.5 * t)]) + 0.1 * rng.standard_normal((2, n))
    seen = rng.random((2, n)) >= missing
    sizes = np.array([1.0, 2.0])
    whitenings = tuple(Whitening(s, np.array(reflections)) for s in seen)
    data = Channels(np.where(seen, Y, 0.0), whitenings, sizes)
    fit = refined(data, modes_of(z, n, False), tol=1e-13, most_steps=100)
    assert fit.converged

    def residuals(p):
        growth, angle, decay = p[:3]
        B = np.stack([growth**t * np.cos(angle * t), growth**t * np.sin(angle * t), decay**t], axis=1)
        left = Y.T - B @ p[3:].reshape(3, 2)
        return np.concatenate([w(left[:, c]) / sizes[c] for c, w in enumerate(whitenings)])

    other = least_squares(residuals, [0.97, 0.5, 0.9, 1, 0, 0, 1, 1, 0], xtol=1e-14, ftol=1e-14, gtol=1e-14)
    assert float(fit.squares @ sizes**-2.0) == pytest.approx(2 * other.cost, rel=1e-8)


def test_a_complex_fit_is_stationary():
    n, rng = 80, np.random.default_rng(0)
    z = np.array(COMPLEX)
    y = z ** np.arange(n)[:, None] @ np.array([1.0, 2j, 1.0]) + 0.1 * (rng.standard_normal((2, n)).T @ [1, 1j])
    data = channels_of(y[None])
    fit = refined(data, modes_of(z, n, True), tol=1e-14, most_steps=100, slowest=-0.1)
    for step in 1e-4 * np.vstack([np.eye(6), -np.eye(6)]):
        assert fitted(data, fit.modes.moved(step, -1.0)).squares[0] > fit.squares[0]


def test_no_pole_leaves_the_unit_disc():
    t = np.arange(50)
    y = 1.02**t * np.cos(0.5 * t)
    modes = modes_of(np.exp(np.array([0.5j, -0.5j])), 50, False)
    fit = refined(channels_of(y[None]), modes, tol=1e-12, most_steps=50)
    assert np.abs(fit.modes.poles()).max() <= 1 + 1e-12
    free = refined(channels_of(y[None]), modes, tol=1e-14, most_steps=50, slowest=-0.1)
    assert np.allclose(np.abs(free.modes.poles()), 1.02)


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize(("n", "window"), [(50, 20), (20, 2), (31, 30), (300, 20)])
def test_products_of_windows_are_those_of_the_hankel_matrix(n, window, is_complex):
    rng = np.random.default_rng(1)
    Y = rng.standard_normal((2, n)) + (1j * rng.standard_normal((2, n)) if is_complex else 0.0)
    H = np.hstack([sliding_window_view(y, window).T for y in Y])
    wanted = H @ H.conj().T
    assert np.allclose(gram_of_windows(Y, window), wanted, rtol=1e-12, atol=1e-12 * n)
    x = rng.standard_normal(window) + (1j * rng.standard_normal(window) if is_complex else 0.0)
    for product in (_by_windows, _by_ends):
        assert np.allclose(product(Y, window)(x), wanted @ x, rtol=1e-12, atol=1e-11 * n)


def test_no_mode_is_over_before_the_first_sample_that_is_seen():
    y = 0.9 ** np.arange(60.0)
    y[:2], y[2] = np.nan, 5.0  # an exponential that decays quickly would fit this sample
    data = channels_of(y[None])
    fit = refined(data, modes_of(np.array([0.9, 0.01], dtype=complex), 60, False), tol=1e-12, most_steps=50)
    assert np.abs(fit.modes.poles()).min() >= 10**-0.5 - 1e-12
    assert np.abs(fit.signal[:, :2]).max() < 100.0


@pytest.mark.parametrize("window", [20, 200])  # formed, and by products
@pytest.mark.parametrize("is_complex", [False, True])
def test_spaces_are_those_of_the_hankel_matrix(window, is_complex):
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((2, 420)) + (1j * rng.standard_normal((2, 420)) if is_complex else 0.0)
    z = np.exp(np.array([-0.002 + 0.3j, -0.004 - 0.3j, -0.001 + 1.1j, -0.003 - 1.1j]))
    Y = Y * 0.01 + ((z ** np.arange(420)[:, None]) @ rng.standard_normal((4, 2))).T
    Y = Y if is_complex else Y.real.copy()
    H = np.concatenate([np.lib.stride_tricks.sliding_window_view(y, window).T for y in Y], axis=1)
    U, s, _ = np.linalg.svd(H, full_matrices=False)
    P = leading_space(Y, window, 4)
    assert np.allclose(np.linalg.norm(U[:, :4].conj().T @ P, ord=-2), 1.0, atol=1e-6)
    found, values = singular_space(Y, window, 4)
    assert np.allclose(values, s[:4], rtol=1e-7)
    assert np.allclose(np.abs(np.sum(found.conj() * U[:, :4], axis=0)), 1.0, atol=1e-5)
    if is_complex:
        assert all(np.abs(poles_of(P) - pole).min() < 1e-3 for pole in z)


def test_the_criterion_finds_the_memory_of_noise():
    rng = np.random.default_rng(0)
    e = np.zeros(400)
    for t in range(1, 400):
        e[t] = 0.7 * e[t - 1] + rng.standard_normal()
    Y = np.stack([e, rng.standard_normal(400)])
    Y[0, ::9] = np.nan
    found = scored(Y, fitted(channels_of(Y), modes_of(np.zeros(0), 400, False)))
    assert [len(w.reflections) for w in found.whitenings] == [1, 0]
    assert found.whitenings[0].coefficients[0] == pytest.approx(0.7, abs=0.1)
    assert np.allclose(found.sizes, 1.0, rtol=0.1)
