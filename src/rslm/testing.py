"""Checks for a loss, a measurement, a structure or an inner solver of your own: derivatives, conjugates and adjoints.

Every check returns nothing, or raises an AssertionError that says what disagrees and by how much. Derivatives are
compared with Ridders' extrapolated central differences, which choose their step without using the derivative that is
checked.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rslm.evaluation.objective import Objective
from rslm.losses import Loss
from rslm.measurements import Measurement
from rslm.measurements.base import validate
from rslm.runtime.types import Floats
from rslm.structures import LinearStructure
from rslm.structures.penalty import Penalty
from rslm.structures.validate import validate_linear, validate_penalty

__all__ = [
    "check_gradient",
    "check_hessian",
    "check_loss",
    "check_measurement",
    "check_penalty",
    "check_structure",
    "difference",
]

SHRINK = 1.6  # factor from one step to the next shorter one
STEPS = 14
EXACT = 1e-10  # relative error at which a difference needs no shorter step: a thousandth of the tolerance of the checks
STEP = 0.01  # longest step h of the differences of a loss: their error is h⁴ = 1e-8 times the fifth derivative over 480
FAR = (1e3, -1e3, 1e6, -1e6)  # predictions at which only the steepest slope of a loss matters
PAIRS = 4000  # at distances of 0.01 to 10, so that tens of them are on opposite sides of any kink near the middle


def difference(f: Callable[[float], Floats | float], step: float) -> Floats:
    """The derivative of f at 0 by central differences, extrapolated to step 0, from `step` downwards.

    Steps end when two extrapolations agree to `EXACT`; otherwise the best of all is returned.
    """
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
        if error <= EXACT * float(np.linalg.norm(best)):
            break
        row = new
    return best


def check_loss(
    loss: Loss, y: Floats | None = None, w: Floats | None = None, *, tol: float = 1e-7, random_state: int = 0
) -> None:
    """Check value, gradient, hessian, conjugate and targets of a loss against one another.

    The derivatives agree with differences; the loss is convex, also across kinks; the conjugate belongs to the loss,
    and is inf where it must be; `targets` accepts what it returns; every function works entry by entry for arrays of
    any shape, keeps the shape, and does not change its input.

    Parameters
    ----------
    loss : Loss
    y, w : arrays of one shape, optional
        Targets and predictions to check at. If y is None, random targets that the loss accepts, −1 and 1 for a binary
        loss; give y if the targets must be other than real numbers, two classes, counts or fractions. If w is None,
        random numbers, and derivatives are compared only where the gradient has no kink nearby. If w is given, all its
        entries are compared: keep them a few hundredths away from kinks of the loss or of its gradient.
    tol : float
        Largest disagreement, relative to the largest number of the quantity.
    random_state : int
    """
    rng = np.random.default_rng(random_state)
    y = _some_targets(loss, rng) if y is None else _targets(loss, np.asarray(y, dtype=np.float64))
    _check(y.size > 0, "check_loss needs at least one target")
    anywhere = w is None
    w = 2.0 * rng.standard_normal(y.shape) if w is None else np.asarray(w, dtype=np.float64)
    value, gradient, hessian = (_part(loss, name, y, w) for name in ("value", "gradient", "hessian"))
    for name, got in (("value", value), ("gradient", gradient), ("hessian", hessian)):
        _check(bool(np.isfinite(got).all()), f"{name} of {loss!r} is not finite everywhere")

    smooth = _smooth(loss, y, w) if anywhere else np.ones(y.shape, dtype=bool)
    at, there = y[smooth], w[smooth]
    step = np.full(at.shape, STEP)
    slope = _each(lambda h: loss.value(at, there + h), step)
    _agree(gradient[smooth], slope, tol, f"gradient of {loss!r}", "differences of its value", at, there)
    bend = _each(lambda h: loss.gradient(at, there + h), step)
    _agree(hessian[smooth], bend, tol, f"hessian of {loss!r}", "differences of its gradient", at, there)
    _check(bool((hessian >= 0).all()), f"hessian of {loss!r} is negative somewhere: the loss is not convex")
    _check_convex(loss, y, w, tol, rng)

    # Fenchel–Young: ℓ(y, w) + ℓ*(y, s) ≥ s w, with equality where s is the gradient at w.
    scale = float(np.abs(value).max() + np.abs(gradient * w).max() + 1.0)
    touching = value + _part(loss, "conjugate", y, gradient) - gradient * w
    worst = float(np.abs(touching).max())
    _check(
        worst <= tol * scale, f"conjugate of {loss!r} violates Fenchel–Young's equality at the gradient by {worst:.1e}"
    )
    _check_conjugate(loss, y, w, gradient, tol, rng)
    _check_entries(loss, y.ravel(), w.ravel(), gradient.ravel())


def check_gradient(
    objective: Objective, U: Floats, *, tol: float = 1e-7, directions: int = 3, random_state: int = 0
) -> None:
    """Check ∇g(U) against differences of g, along random directions and along the gradient itself.

    The disagreement is relative to the slope along the direction, or to a tenth of the typical slope along a random
    direction, if that is larger.

    Parameters
    ----------
    objective : Objective
    U : array of shape (d, r)
        Where to check; its norm need not be 1.
    tol : float
        Largest disagreement.
    directions : int
        How many random directions.
    random_state : int
        Seed of the directions.
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
            f"the slope is {exact:.12g} by the gradient, but {numeric:.12g} by differences of g: {error:.1e} apart",
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
    """Check D∇g(U)[ξ] against differences of ∇g, that it is linear in ξ, and that ⟨η, D∇g[ξ]⟩ = ⟨ξ, D∇g[η]⟩.

    Parameters
    ----------
    objective : Objective
    U : array of shape (d, r)
        Where to check; its norm need not be 1.
    tol : float
        Largest disagreement with differences, relative to the larger of the two.
    symmetry : float
        Largest relative deviation from linearity and from symmetry.
    directions : int
        How many random directions ξ; the gradient is one more.
    random_state : int
        Seed of the directions.
    """
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


def check_measurement(data: Measurement, *, tol: float = 1e-10, random_state: int = 0) -> None:
    """Check that `apply` is linear in each factor, and `adjoint` its adjoint.

    Parameters
    ----------
    data : Measurement
    tol : float, default=1e-10
        Largest relative error.
    random_state : int, default=0
    """
    _refused(lambda: validate(data))
    rng, (d, T), n = np.random.default_rng(random_state), data.shape, len(data)
    for k in (1, 3):
        X, V = rng.standard_normal((d, k)), rng.standard_normal((T, k))
        w, z = data.apply(X, V), rng.standard_normal(n)
        if np.shape(w) != (n,):
            raise AssertionError(f"apply of {data!r} must return shape ({n},), one per observation; got {np.shape(w)}")
        size = float(np.linalg.norm(w)) + np.finfo(float).tiny
        apart = float(np.linalg.norm(w - sum(data.apply(X[:, [c]], V[:, [c]]) for c in range(k))))
        if not apart <= tol * size:
            raise AssertionError(f"apply of {data!r} is not linear: the sum over columns differs by {apart / size:.2g}")
        one = float(w @ z)
        for name, product, other in (
            ("adjoint_times", data.adjoint_times(z, V), X),
            ("adjoint_transposed_times", data.adjoint_transposed_times(z, X), V),
        ):
            if product.shape != other.shape:
                raise AssertionError(f"{name} of {data!r} must have shape {other.shape}; got {product.shape}")
            two = float(np.vdot(product, other))
            if not abs(one - two) <= tol * size * float(np.linalg.norm(z)):
                raise AssertionError(
                    f"{name} of {data!r} is wrong: ⟨M W, z⟩ is {one:.6g}, but ⟨W, M*z⟩ is {two:.6g} for the same W, z"
                )


def check_structure(structure: LinearStructure, *, tol: float = 1e-10, random_state: int = 0) -> None:
    """Check that the products, entries and adjoints of a linear structure belong to one linear map.

    Parameters
    ----------
    structure : LinearStructure
        A small one, because P(w) is formed.
    tol : float
        Largest disagreement, relative to the size of what is compared.
    random_state : int
        Seed of the random parameters and factors.
    """
    name, (d, T) = repr(structure), structure.shape
    rng = np.random.default_rng(random_state)
    w, v = rng.standard_normal((2, structure.size))
    X, Y = rng.standard_normal((d, 3)), rng.standard_normal((T, 3))
    rows, columns = (a.ravel() for a in np.indices((d, T)))

    def agree(got: Floats, wanted: Floats, what: str) -> None:
        shapes = f"{what} of {name} has shape {np.shape(got)}, but {np.shape(wanted)} is needed"
        _check(np.shape(got) == np.shape(wanted), shapes)
        apart = _relative(np.asarray(got), np.asarray(wanted))
        _check(apart <= tol, f"{what} of {name} is wrong, with a relative error of {apart:.1e}")

    _refused(lambda: validate_linear(structure))
    W = structure.matrix(w)
    agree(W, np.reshape(structure.entries(w, rows, columns), (d, T)), "matrix, compared with entries,")
    agree(structure.matrix(2.0 * w - 3.0 * v), 2.0 * W - 3.0 * structure.matrix(v), "matrix, which is not linear,")
    agree(structure.times(w, Y), W @ Y, "times")
    agree(structure.transposed_times(w, X), W.T @ X, "transposed_times")
    prepared = structure.parameters(w), structure.left(X), structure.right(Y)
    agree(structure.times(prepared[0], prepared[2]), W @ Y, "times, with prepared factors,")
    agree(structure.transposed_times(prepared[0], prepared[1]), W.T @ X, "transposed_times, with prepared factors,")
    adjoint = structure.spread((X @ Y.T).ravel(), rows, columns)
    agree(structure.adjoint(X, Y), adjoint, "adjoint, compared with spread,")
    agree(structure.adjoint(*prepared[1:]), adjoint, "adjoint, with prepared factors,")
    agree(structure.gram(w), structure.spread(W.ravel(), rows, columns), "gram")
    _check(
        structure.counts.shape == w.shape and bool((structure.counts > 0).all()), f"counts of {name} are not positive"
    )


def check_penalty(penalty: Penalty, shape: tuple[int, int]) -> None:
    """Check that a penalty and its products belong to one symmetric positive semidefinite map.

    Parameters
    ----------
    penalty : Penalty
    shape : (d, T)
        Of W.
    """
    _refused(lambda: validate_penalty(penalty, shape))


def _refused(check: Callable[[], None]) -> None:
    """Checks that `Problem` makes too: their errors become failures."""
    try:
        check()
    except (TypeError, ValueError) as wrong:
        raise AssertionError(str(wrong)) from None


def _some_targets(loss: Loss, rng: np.random.Generator) -> Floats:
    """Random targets that the loss accepts."""
    size = 200
    classes = np.where(rng.random(size) < 0.5, -1.0, 1.0)
    if loss.binary:
        return _targets(loss, classes)
    refusals = []
    for kind, y in (
        ("real numbers", 2.0 * rng.standard_normal(size)),
        ("−1 and 1", classes),
        ("counts", rng.poisson(2.0, size).astype(np.float64)),
        ("fractions between 0 and 1", rng.uniform(0.05, 0.95, size)),
    ):
        try:
            return _targets(loss, y)
        except ValueError as refusal:
            refusals.append(f"{kind}: {refusal}")
    raise AssertionError(f"targets of {loss!r} rejects all that check_loss tried; give y. " + "; ".join(refusals))


def _targets(loss: Loss, given: Floats) -> Floats:
    """loss.targets(given), which must not change its input, and must accept its own result."""
    before = given.copy()
    y = loss.targets(given)
    _check(np.array_equal(given, before, equal_nan=True), f"targets of {loss!r} changes its input")
    _check(np.shape(y) == given.shape, f"targets of {loss!r} turns shape {given.shape} into {np.shape(y)}")
    y = np.array(y, dtype=np.float64)
    _check(not loss.binary or bool((np.abs(y) == 1).all()), f"targets of {loss!r}, a binary loss, are not all −1 or 1")
    try:
        again = loss.targets(y.copy())
    except ValueError as refusal:
        raise AssertionError(f"targets of {loss!r} rejects its own result: {refusal}") from refusal
    _check(np.array_equal(again, y), f"targets of {loss!r} changes its own result")
    return y


def _part(loss: Loss, name: str, y: Floats, x: Floats) -> Floats:
    """One of the four functions of the loss at copies of y and x, which it must not change."""
    one, other = y.copy(), x.copy()
    got = getattr(loss, name)(one, other)
    same = np.array_equal(one, y) and np.array_equal(other, x, equal_nan=True)
    _check(same, f"{name} of {loss!r} changes its input")
    _check(np.shape(got) == y.shape, f"{name} of {loss!r} has shape {np.shape(got)} for targets of shape {y.shape}")
    return np.array(got, dtype=np.float64)


def _smooth(loss: Loss, y: Floats, w: Floats) -> NDArray[np.bool_]:
    """Where the gradient has no jump and no kink within the steps of the differences.

    A jump J of the gradient causes third differences of about J, a jump K of the hessian K·STEP/3 or more; a smooth
    gradient has STEP³ times its third derivative. At least half of the points are kept: if more look rough, the loss
    probably has a large third derivative.
    """
    around = np.stack([loss.gradient(y, w + k * STEP) for k in (-2, -1, 0, 1, 2)])
    rough = np.abs(np.diff(around, n=3, axis=0)).max(axis=0)
    size = np.abs(around).max(axis=0)
    size = np.maximum(np.maximum(size, np.median(size)), np.finfo(float).tiny)
    # 1e-5 is ten times the value for exp, STEP³, and a tenth of that for a kink of K = 0.03, if gradients are about 1.
    limit = max(1e-5, 30.0 * float(np.median(rough / size)))
    return np.asarray(~(rough > limit * size))


def _check_conjugate(loss: Loss, y: Floats, w: Floats, gradient: Floats, tol: float, rng: np.random.Generator) -> None:
    """Fenchel–Young's inequality, also far out and at slopes just outside the domain; convexity between gradients."""
    spread = rng.permutation(gradient.ravel()).reshape(y.shape)
    slopes = [spread, 3.0 * rng.standard_normal(y.shape), np.zeros_like(y)]
    # A loss may overflow far out, and a conjugate may compute values outside its domain before it replaces them by inf.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        places = [w, *(np.full(y.shape, far) for far in FAR)]
        for place in places[1:]:
            steep = _part(loss, "gradient", y, place)
            steep = np.where(np.isfinite(steep), steep, 0.0)
            slopes.append(steep)
            # A domain that is too wide contains slopes just above the steepest; at w = 1e6, an excess of 1e-5 shows.
            slopes += [steep + excess * (1.0 + np.abs(steep)) for excess in (1e-5, -1e-5, 0.01, -0.01)]
        values = [_part(loss, "value", y, place) for place in places]
        for place, value in zip(places, values, strict=True):
            _check(not np.isnan(value).any(), f"value of {loss!r} is not a number at w = {place.flat[0]:g}")
        for s in slopes:
            conjugate = _part(loss, "conjugate", y, s)
            _check(bool((conjugate > -np.inf).all()), f"conjugate of {loss!r} is −inf or not a number somewhere")
            for place, value in zip(places, values, strict=True):
                # Rounding errors are about 1e-16 of the terms; a slope with a relative error of 1e-7 shows far out.
                room = (value + conjugate - s * place) / (1.0 + np.abs(value) + np.abs(s * place))
                room = np.where(np.isinf(value) | np.isinf(conjugate), np.inf, room)
                k = int(np.argmin(room))
                missed = s.flat[k] * place.flat[k] - value.flat[k] - conjugate.flat[k]
                _check(
                    bool(room.flat[k] >= -tol),
                    f"conjugate of {loss!r} violates Fenchel–Young's inequality by {missed:.1e}: it is "
                    f"{conjugate.flat[k]:.6g} at y = {y.flat[k]:.6g}, w = {place.flat[k]:.6g}, s = {s.flat[k]:.6g}, "
                    + (
                        "so value is below −conjugate(y, 0)" if s.flat[k] == 0 else "too small (inf outside its domain)"
                    ),
                )
    # Between two gradients of one entry the conjugate is finite and not above the chord; at a kink nothing else bounds
    # it from above.
    other = _part(loss, "gradient", y, 2.0 * rng.standard_normal(y.shape))
    part = rng.uniform(0.1, 0.9, y.shape)
    ends = [_part(loss, "conjugate", y, s) for s in (gradient, other)]
    chord = ends[0] + part * (ends[1] - ends[0])
    inner = _part(loss, "conjugate", y, gradient + part * (other - gradient))
    over = float(((inner - chord) / (1.0 + np.abs(ends[0]) + np.abs(ends[1]))).max())
    _check(over <= tol, f"conjugate of {loss!r} is not convex: {over:.1e} above the chord between two gradients")


def _check_convex(loss: Loss, y: Floats, w: Floats, tol: float, rng: np.random.Generator) -> None:
    """The loss is below its chords and above its tangents, over short and long distances and at likely kinks."""
    y, w = y.ravel(), w.ravel()
    rounds = -(-PAIRS // y.size)
    starts = np.concatenate([np.tile(w, rounds), y, np.zeros_like(y), np.ones_like(y), -np.ones_like(y)])
    y = np.tile(y, rounds + 4)
    # A concave kink shows in chords across it that are so short that the curvature on either side does not hide it.
    ends = starts + rng.choice([-1.0, 1.0], y.size) * 10.0 ** rng.uniform(-2.0, 1.0, y.size)
    first, last, middle = (_part(loss, "value", y, x) for x in (starts, ends, 0.5 * (starts + ends)))
    slope = _part(loss, "gradient", y, starts)
    bend = _part(loss, "hessian", y, starts)
    for name, got in (("value", first), ("gradient", slope), ("hessian", bend)):
        _check(bool(np.isfinite(got).all()), f"{name} of {loss!r} is not finite everywhere")
    _check(bool((bend >= 0).all()), f"hessian of {loss!r} is negative somewhere: the loss is not convex")
    size = 1.0 + np.abs(first) + np.abs(last) + np.abs(slope * (ends - starts))
    for above, what in (
        (middle - 0.5 * (first + last), "is above the middle of a chord, so it is not convex,"),
        (first + slope * (ends - starts) - last, "is below the tangent given by its gradient"),
    ):
        k = int(np.argmax(above / size))
        _check(
            bool(above[k] <= tol * size[k]),
            f"value of {loss!r} {what} by {above[k]:.1e} at y = {y[k]:.6g}, from w = {starts[k]:.6g} to {ends[k]:.6g}",
        )


def _check_entries(loss: Loss, y: Floats, w: Floats, s: Floats) -> None:
    """Every function works entry by entry: the same for a matrix, its transpose, one entry and none as for a vector."""

    def twice(x: Floats) -> Floats:
        return np.stack([x, x[::-1]])

    views: list[Callable[[Floats], Floats]] = [
        twice,
        lambda x: twice(x).T,
        lambda x: x[:1],
        lambda x: x[:0],
        lambda x: twice(x)[:, :0],
    ]
    for name, x in (("value", w), ("gradient", w), ("hessian", w), ("conjugate", s), ("targets", y)):
        whole = y if name == "targets" else _part(loss, name, y, x)
        for view in views:
            shape = view(y).shape
            try:
                got = _targets(loss, view(y)) if name == "targets" else _part(loss, name, view(y), view(x))
            except (ValueError, IndexError, TypeError, ZeroDivisionError) as error:
                raise AssertionError(f"{name} of {loss!r} fails for arrays of shape {shape}: {error}") from error
            # NumPy may round the last digits of short and of strided arrays differently.
            same = np.allclose(got, view(whole), rtol=1e-12, atol=1e-12)
            _check(same, f"{name} of {loss!r} does not work entry by entry: its numbers differ for shape {shape}")


def _directions(U: Floats, gradient: Floats, count: int, random_state: int) -> list[Floats]:
    """`count` random directions and the gradient, all scaled to the norm of U."""
    rng = np.random.default_rng(random_state)
    found: list[Floats] = [rng.standard_normal(U.shape) for _ in range(count)]
    if np.any(gradient):
        found.append(gradient)
    return [xi * (float(np.linalg.norm(U)) / float(np.linalg.norm(xi))) for xi in found]


def _step(U: Floats) -> float:
    """The longest step, for directions with the norm of U; `difference` also tries shorter ones."""
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
        f"but {b.flat[worst]:.12g} by {against}",
    )


def _check(right: bool, sentence: str) -> None:
    if not right:
        raise AssertionError(sentence)
