"""Fits of many small panels at once: accelerated proximal steps with effects in closed form, each panel with its gap.

    minimise  C Σ (y − W − effects)² + ½‖W‖_*²      over the observed entries of each panel

The effects are eliminated, so a step is W ← shrunk(W + what least squares on effects leaves of y − W). A panel leaves
the stack as soon as it is solved, and no number depends on the other panels of the stack.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from rslm.estimators.panel.spectral import Shrunk, changed
from rslm.estimators.panel.two_way import Flags, Located, TwoWay
from rslm.kernels import Stopped
from rslm.runtime.interrupts import Interrupt, current_interrupt
from rslm.runtime.types import Floats

Answer = TypeVar("Answer")

EVERY = 5  # steps between two computations of the gap, which costs as much as a step
MOST_STEPS = 5000
BATCH = 100_000  # entries of the panels that one thread fits at a time: their arrays stay in the cache


@dataclass(frozen=True, eq=False)
class Fitted:
    """The answers of a stack of panels."""

    W: Floats  #: (panels, units, periods)
    located: Located
    predicted: Floats  #: W and effects, at all entries
    miss: Floats  #: relative duality gap, or of a factor model the relative size of the last step
    steps: Floats  #: number of steps of each panel

    @classmethod
    def of_one(cls, W: Floats, located: tuple[Floats, Floats, Floats], predicted: Floats) -> Fitted:
        """The answer of another solver for one panel."""
        return cls(W[None], Located(*located), predicted[None], np.zeros(1), np.zeros(1))

    @classmethod
    def joined(cls, parts: list[Fitted]) -> Fitted:
        located = Located(*(np.concatenate(found) for found in zip(*(p.located for p in parts), strict=True)))
        arrays = (np.concatenate([getattr(p, name) for p in parts]) for name in ("W", "predicted", "miss", "steps"))
        W, predicted, miss, steps = arrays
        return cls(W, located, predicted, miss, steps)


def fit_stack(
    Y: Floats,
    observed: Flags,
    rule: Shrunk,
    start: Floats | None = None,
    *,
    covariates: Floats | None = None,
    tol: float,
    most_steps: int = MOST_STEPS,
    n_threads: int = 1,
    interrupt: Interrupt | None = None,
    done: Callable[[int], None] | None = None,
) -> Fitted:
    """Fit every panel of a stack.

    Parameters
    ----------
    Y : array of shape (panels, units, periods)
        Outcomes; what is not observed is ignored.
    observed : flags of the same shape, or (1, units, periods) if all panels share them
    rule : Shrunk
        C of each panel.
    start : array of the shape of Y or (1, units, periods), optional
        W of a similar panel.
    covariates : array of shape (k, units, periods), optional
    tol : float
        Relative duality gap at which a panel is solved.
    most_steps : int
    n_threads : int
        Batches of panels are fitted in parallel; the numbers do not depend on it.
    interrupt : Interrupt, optional
        What may stop the fits; that of the running estimator if None.
    done : callable, optional
        Called with the number of panels that are solved after each batch.
    """
    stop = interrupt or current_interrupt()

    def part(cut: slice) -> Fitted:
        seen = observed if len(observed) == 1 else observed[cut]
        begin = None if start is None else np.broadcast_to(start, Y.shape)[cut]
        return _fit(Y[cut], TwoWay(seen, covariates), rule.taken(cut), begin, tol, most_steps, stop)

    return Fitted.joined(in_batches(Y, part, n_threads, done))


def in_batches(
    Y: Floats, part: Callable[[slice], Answer], n_threads: int, done: Callable[[int], None] | None
) -> list[Answer]:
    """The answers of all batches of a stack, in parallel."""
    size, count = max(BATCH // Y[0].size, 1), len(Y)
    cuts, found = [slice(k, min(k + size, count)) for k in range(0, count, size)], []
    with ThreadPoolExecutor(min(n_threads, len(cuts))) as pool:
        for cut, answer in zip(cuts, pool.map(part, cuts), strict=True):
            found.append(answer)
            if done is not None:
                done(cut.stop)
    return found


def _fit(
    Y: Floats, two_way: TwoWay, rule: Shrunk, start: Floats | None, tol: float, most_steps: int, interrupt: Interrupt
) -> Fitted:
    Y = np.where(two_way.seen > 0, Y, 0.0)
    targets = two_way.residual(Y)  # what effects leave: all that W has to explain
    of_all, whole = np.arange(len(Y)), two_way
    answer, miss, steps = np.zeros_like(Y), np.full(len(Y), np.inf), np.zeros(len(Y))
    W = np.zeros_like(Y) if start is None else np.asarray(start)
    ahead, momentum = W, np.ones(len(Y))
    for k in range(1, most_steps + 1):
        if interrupt.over():
            raise Stopped
        new, values = changed(ahead + targets - two_way.residual(ahead * two_way.seen), rule)
        step, moved = new - W, new - ahead
        # The extrapolation restarts where it points uphill.
        momentum = np.where((moved * step).sum(axis=(1, 2)) < 0, 1.0, momentum)
        later = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        ahead = new + ((momentum - 1.0) / later)[:, None, None] * step
        W, momentum = new, later
        if k % EVERY and k < most_steps:
            continue
        now = rule.gap(targets - two_way.residual(W * two_way.seen), targets, values)
        ended = (now <= tol) | (k == most_steps)
        if ended.any():
            at, left = of_all[ended], ~ended
            answer[at], miss[at], steps[at] = W[ended], now[ended], k
            if not left.any():
                break
            of_all, momentum = of_all[left], momentum[left]
            targets, W, ahead = (a[left] for a in (targets, W, ahead))
            two_way, rule = two_way.taken(left), rule.taken(left)
    located = whole.located((Y - answer) * whole.seen)
    return Fitted(answer, located, answer + whole.predicted(located), miss, steps)
