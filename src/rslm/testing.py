"""Checks for those who add a loss or an inner solver: the derivatives are right, and so is the conjugate.

Every check raises an AssertionError that says what disagrees and by how much, and returns nothing. Derivatives are
compared with Ridders' extrapolated central differences, which choose their step themselves, knowing nothing of the
derivative that is checked.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rslm._typing import Floats
from rslm.losses import Loss
from rslm.objective import Objective

__all__ = ["check_gradient", "check_hessian", "check_loss", "difference"]

SHRINK = 1.6  # from one step to the next shorter one
STEPS = 14


def difference(f: Callable[[float], Floats | float], step: float) -> Floats:
    """The derivative of f at 0 by central differences, extrapolated to step 0, from `step` downwards."""
    best: Floats = np.array(np.nan)
    error = np.inf
    row: list[Floats] = []
    for k in range(STEPS):
        h = step / SHRINK**k
        new = [np.asarray((np.asarray(f(h)) - np.asarray(f(-h))) / (2.0 * h))]
        for order, coarse in enumerate(row, start=1):
            finer = new[-1]
            new.append(finer + (finer - coarse) / (SHRINK ** (2 * order) - 1.0))
            doubt = max(float(np.linalg.norm(new[-1] - finer)), float(np.linalg.norm(new[-1] - coarse)))
            if doubt < error:
                best, error = new[-1], doubt
        row = new
    return best


def check_loss(
    loss: Loss, y: Floats | None = None, w: Floats | None = None, *, tol: float = 1e-7, random_state: int = 0
) -> None:
    """Check value, gradient, hessian and conjugate of a loss against one another.

    Parameters
    ----------
    loss : Loss
    y, w : arrays of one shape, optional
        Targets and predictions to check at; random numbers if None. Give them for a loss that has a smaller domain
        or kinks, and stay a few hundredths away from the kinks.
    tol : float
        Largest disagreement, relative to the largest number of the quantity.
    random_state : int
    """
    rng = np.random.default_rng(random_state)
    y = 2.0 * rng.standard_normal(200) if y is None else np.asarray(y, dtype=np.float64)
    w = 2.0 * rng.standard_normal(y.shape) if w is None else np.asarray(w, dtype=np.float64)
    value, gradient, hessian = loss.value(y, w), loss.gradient(y, w), loss.hessian(y, w)
    for name, got in (("value", value), ("gradient", gradient), ("hessian", hessian)):
        _check(np.shape(got) == y.shape, f"{name} of {loss!r} has shape {np.shape(got)} for targets of shape {y.shape}")
        _check(bool(np.isfinite(got).all()), f"{name} of {loss!r} is not finite everywhere")

    step = np.full(y.shape, 1e-2)
    slope = _each(lambda h: loss.value(y, w + h), step)
    _agree(gradient, slope, tol, f"gradient of {loss!r}", "differences of its value", y, w)
    _agree(
        hessian,
        _each(lambda h: loss.gradient(y, w + h), step),
        tol,
        f"hessian of {loss!r}",
        "differences of its gradient",
        y,
        w,
    )
    _check(bool((hessian >= 0).all()), f"hessian of {loss!r} is negative somewhere: the loss is not convex")

    # Fenchel–Young: ℓ(y, w) + ℓ*(y, s) ≥ s w, with equality where s is the gradient at w.
    scale = float(np.abs(value).max() + np.abs(gradient * w).max() + 1.0)
    touching = value + loss.conjugate(y, gradient) - gradient * w
    worst = float(np.abs(touching).max())
    _check(
        worst <= tol * scale, f"conjugate of {loss!r} misses Fenchel–Young's equality at the gradient by {worst:.1e}"
    )
    for s in (rng.permutation(gradient.ravel()).reshape(y.shape), 3.0 * rng.standard_normal(y.shape)):
        room = float((value + loss.conjugate(y, s) - s * w).min())
        _check(room >= -tol * scale, f"conjugate of {loss!r} breaks Fenchel–Young's inequality by {-room:.1e}")


def check_gradient(
    objective: Objective, U: Floats, *, tol: float = 1e-7, directions: int = 3, random_state: int = 0
) -> None:
    """Check ∇g(U) against differences of g, along random directions and along the gradient itself.

    The disagreement is relative to the length of the gradient's part in the direction's line, or a tenth of what a
    random direction has of it, if that is more.
    """
    U = np.asarray(U, dtype=np.float64)
    gradient = objective.evaluate(U).gradient
    _check(gradient.shape == U.shape, f"the gradient has shape {gradient.shape}, U has {U.shape}")
    size = float(np.linalg.norm(gradient))
    for xi in _directions(U, gradient, directions, random_state):
        exact = float(np.vdot(gradient, xi))
        numeric = float(difference(lambda h, xi=xi: objective.evaluate(U + h * xi).value, _step(U)))  # type: ignore[misc]
        least = 0.1 * size * float(np.linalg.norm(xi)) / np.sqrt(U.size)
        error = abs(exact - numeric) / max(abs(exact), least, np.finfo(float).tiny)
        _check(
            error <= tol,
            f"the gradient's slope is {exact:.12g}, differences of g say {numeric:.12g}: {error:.1e} apart",
        )


def check_hessian(
    objective: Objective,
    U: Floats,
    *,
    tol: float = 1e-7,
    symmetry: float = 1e-10,
    directions: int = 3,
    random_state: int = 0,
) -> None:
    """Check D∇g(U)[ξ] against differences of ∇g, that it is linear in ξ, and that ⟨η, D∇g[ξ]⟩ = ⟨ξ, D∇g[η]⟩."""
    U = np.asarray(U, dtype=np.float64)
    here = objective.evaluate(U)
    along = _directions(U, here.gradient, directions, random_state)
    products = [here.hessian_product(xi) for xi in along]
    for xi, exact in zip(along, products, strict=True):
        _check(exact.shape == U.shape, f"the Hessian product has shape {exact.shape}, U has {U.shape}")
        numeric = difference(lambda h, xi=xi: objective.evaluate(U + h * xi).gradient, _step(U))  # type: ignore[misc]
        error = _relative(exact, numeric)
        _check(error <= tol, f"the Hessian product and differences of the gradient are {error:.1e} apart")
    total = _relative(here.hessian_product(np.sum(along, axis=0)), np.sum(products, axis=0))
    _check(total <= symmetry, f"the Hessian product of a sum and the sum of the products are {total:.1e} apart")
    for xi, h_xi in zip(along, products, strict=True):
        for eta, h_eta in zip(along, products, strict=True):
            one, other = float(np.vdot(eta, h_xi)), float(np.vdot(xi, h_eta))
            size = float(np.linalg.norm(h_xi) * np.linalg.norm(eta) + np.linalg.norm(h_eta) * np.linalg.norm(xi))
            apart = abs(one - other) / max(size, np.finfo(float).tiny)
            _check(apart <= symmetry, f"the Hessian is not symmetric: {one:.12g} and {other:.12g}, {apart:.1e} apart")


def _directions(U: Floats, gradient: Floats, count: int, random_state: int) -> list[Floats]:
    """Some random directions and the gradient, all as long as U."""
    rng = np.random.default_rng(random_state)
    found: list[Floats] = [rng.standard_normal(U.shape) for _ in range(count)]
    if np.any(gradient):
        found.append(gradient)
    return [xi * (float(np.linalg.norm(U)) / float(np.linalg.norm(xi))) for xi in found]


def _step(U: Floats) -> float:
    """The longest step, for directions that are as long as U; from there on it is shortened as far as that helps."""
    return 0.05 if np.any(U) else 1.0


def _each(f: Callable[[Floats], Floats], step: Floats) -> Floats:
    """The derivative of every component by its own argument: central differences at two steps, extrapolated."""
    coarse = (f(step) - f(-step)) / (2.0 * step)
    fine = (f(step / 2.0) - f(-step / 2.0)) / step
    return np.asarray(fine + (fine - coarse) / 3.0)


def _relative(a: Floats, b: Floats) -> float:
    size = max(float(np.linalg.norm(a)), float(np.linalg.norm(b)))
    return float(np.linalg.norm(a - b)) / size if size > 0 else 0.0


def _agree(a: Floats, b: Floats, tol: float, what: str, against: str, y: Floats, w: Floats) -> None:
    apart = np.abs(a - b)
    worst = int(np.argmax(apart))
    size = max(float(np.abs(b).max()), 1e-3)
    _check(
        float(apart.flat[worst]) <= tol * size,
        f"{what} is {a.flat[worst]:.12g} at y = {y.flat[worst]:.6g}, w = {w.flat[worst]:.6g}, "
        f"{against} say {b.flat[worst]:.12g}",
    )


def _check(right: bool, sentence: str) -> None:
    if not right:
        raise AssertionError(sentence)
