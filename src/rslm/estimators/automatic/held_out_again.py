"""Intervals where nothing was held out, because all settings were given: by fits to a part of the entries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rslm.estimators.automatic.calibrated import calibrated
from rslm.estimators.automatic.folds import folds_of
from rslm.estimators.automatic.search import rounded
from rslm.estimators.completion.intervals import Intervals
from rslm.estimators.completion.layout import Layout
from rslm.evaluation.effects import effects_alone
from rslm.runtime.interrupts import Interrupt
from rslm.runtime.types import Floats
from rslm.solvers import Outcome, solve

# The start has seen the held-out entries, and steps make it forget them. At this relative gradient, the held-out errors
# are within 0.3 % of those at the solution, where C suits the data. Conjugate gradients forget more per second than
# trust regions, whose first steps from there are often rejected.
CLOSE, STEPS = 2e-3, 60


def held_out_again(
    layout: Layout, rank: int, start: Floats, seed: int, n_threads: int, interrupt: Interrupt
) -> Intervals | None:
    """Intervals for a fit of this layout and rank, with the answer as the start; None if nothing can be held out.

    A rank of 0 is that of effects alone.
    """
    loss = layout.loss if layout.loss.smooth else rounded(layout)
    fitted = []
    for fold in folds_of(layout.data, np.random.default_rng(seed)):
        more = len(layout.data) / len(fold.train)  # of fewer losses each counts more, so that W is shrunk as much
        part = replace(layout, data=fold.train, box=None, C=layout.C * more)
        problem = replace(part.problem(), loss=loss)
        if rank == 0:
            U, V = (np.zeros((side, 1)) for side in problem.shape)
            fitted.append((fold, part, part.model(U, V, 0.0, effects_alone(problem, n_threads))))
            continue
        result = solve(
            problem,
            rank,
            solver="conjugate-gradient",
            start=start,
            tol=CLOSE,
            max_iter=STEPS,
            n_threads=n_threads,
            certificate=False,
            random_state=seed,
        )
        if interrupt.pending or result.outcome is Outcome.INTERRUPTED:
            raise KeyboardInterrupt
        fitted.append((fold, part, part.model(result.U, result.V, 0.0, result.effects)))
    return calibrated(fitted, layout.box, layout.loss, n_threads) if fitted else None
