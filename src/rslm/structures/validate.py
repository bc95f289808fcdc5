"""Checks of structures that users write, before a fit: an error says which part is wrong, and how."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from rslm.runtime.types import Floats

if TYPE_CHECKING:
    from rslm.structures.linear import LinearStructure
    from rslm.structures.penalty import Penalty

CLOSE = 1e-8  # relative difference of two numbers that must be equal
ENTRIES = 8  # of P(w), to check `place`


def validate_linear(structure: LinearStructure) -> None:
    """Products with P(w), their adjoint, gram, counts and places must agree at random parameters."""
    rng, (d, T), n = np.random.default_rng(0), structure.shape, structure.size
    w, X, Y = rng.standard_normal(n), rng.standard_normal((d, 2)), rng.standard_normal((T, 2))
    product = returned(structure, "times", lambda: structure.times(w, Y), (d, 2))
    turned = returned(structure, "transposed_times", lambda: structure.transposed_times(w, X), (T, 2))
    adjoint = returned(structure, "adjoint", lambda: structure.adjoint(X, Y), (n,))
    if not product.any():
        raise ValueError(f"times of {structure!r} returns only zeros for random parameters; no parameter has an effect")
    one, size = float(np.vdot(product, X)), float(np.linalg.norm(product) * np.linalg.norm(X))
    agree(structure, "adjoint", "⟨P(w), X Yᵀ⟩", one, float(w @ adjoint), size)
    agree(structure, "transposed_times", "⟨P(w), X Yᵀ⟩", one, float(np.vdot(turned, Y)), size)
    counts = returned(structure, "counts", lambda: structure.counts, (n,))
    if not (counts > 0).all():
        k = int(np.argmin(counts > 0))
        raise ValueError(
            f"counts of {structure!r} must be positive; counts[{k}] is {counts[k]:g}. A parameter that no entry of W "
            "depends on cannot be found: leave it out"
        )
    gram = returned(structure, "gram", lambda: structure.gram(w), (n,))
    if structure.formable:
        other = rng.standard_normal(n)
        P, Q = (structure.times(x, np.eye(T)) for x in (w, other))
        both = float(np.linalg.norm(P) * np.linalg.norm(Q))
        agree(structure, "gram", "⟨P(w), P(x)⟩", float(np.vdot(P, Q)), float(gram @ other), both)
    rows, columns = rng.integers(0, d, ENTRIES), rng.integers(0, T, ENTRIES)
    index = structure.place(rows, columns)
    if index is not None:
        if np.shape(index) != (ENTRIES,) or not ((np.asarray(index) >= 0) & (np.asarray(index) < n)).all():
            raise ValueError(f"place of {structure!r} must return one index from 0 to {n - 1} per entry; got {index!r}")
        unit = np.eye(T)[:, columns]
        entries = structure.times(w, unit)[rows, np.arange(ENTRIES)]
        k = int(np.argmax(np.abs(entries - w[index])))
        place = f"P(w)[{rows[k]}, {columns[k]}]"
        agree(structure, "place", place, float(entries[k]), float(w[index][k]), float(np.abs(w).max()))


def validate_penalty(penalty: Penalty, shape: tuple[int, int]) -> None:
    """½⟨W, 𝓛W⟩ with a symmetric positive semidefinite 𝓛, at random W = A Bᵀ."""
    rng, (d, T) = np.random.default_rng(0), shape
    (A, X), (B, Y) = rng.standard_normal((2, d, 2)), rng.standard_normal((2, T, 2))
    product = returned(penalty, "times", lambda: penalty.times(A, B, Y), (d, 2))
    turned = returned(penalty, "transposed_times", lambda: penalty.transposed_times(A, B, X), (T, 2))
    mirrored = returned(penalty, "times", lambda: penalty.times(X, Y, B), (d, 2))
    own = returned(penalty, "times", lambda: penalty.times(A, B, B), (d, 2))
    value = float(penalty.penalty(A, B))
    one, size = float(np.vdot(product, X)), float(np.linalg.norm(product) * np.linalg.norm(X)) + abs(value)
    agree(penalty, "transposed_times", "⟨𝓛W, X Yᵀ⟩", one, float(np.vdot(turned, Y)), size)
    agree(penalty, "times (𝓛 is not symmetric)", "⟨𝓛W, X Yᵀ⟩", one, float(np.vdot(mirrored, A)), size)
    agree(penalty, "penalty", "½⟨W, 𝓛W⟩", 0.5 * float(np.vdot(own, A)), value, size)
    if not value >= -CLOSE * size:
        raise ValueError(f"penalty of {penalty!r} is {value:g} at a random W; it must not be negative, to be convex")


def returned(part: Any, name: str, call: Callable[[], Any], shape: tuple[int, ...]) -> Floats:
    """What a part returns, if it is a real array of this shape."""
    try:
        found = call()
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise ValueError(f"{name} of {part!r} fails for arguments of the right shape: {error}") from error
    if not (isinstance(found, np.ndarray) and found.shape == shape and found.dtype.kind in "fiub"):
        got = f"{found.dtype} of shape {found.shape}" if isinstance(found, np.ndarray) else type(found).__name__
        raise ValueError(f"{name} of {part!r} must be a real array of shape {shape}; got {got}")
    if not np.isfinite(found).all():
        raise ValueError(f"{name} of {part!r} must be finite")
    return found


def agree(part: Any, name: str, quantity: str, one: float, other: float, size: float) -> None:
    """Raise an error if two numbers that must be equal are not, relative to `size`."""
    if not abs(one - other) <= CLOSE * size:
        raise ValueError(
            f"{name} of {part!r} is wrong: {quantity} is {one:.6g}, but {name.split()[0]} gives {other:.6g} for the "
            "same random numbers; they must be equal"
        )
