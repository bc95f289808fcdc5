"""min C Σ_Ω max(|w − y| − ε, 0) + ½ ‖W‖_*² at a rank: the robust completion of the paper, with ε = 0 the absolute loss.

The trust region of rslm on the spectrahedron; continuation rounds the kinks less and less.
"""

from __future__ import annotations

from paper.observed import Entries
from paper.record import Record
from rslm import Problem, solve
from rslm.losses import Absolute, EpsilonInsensitive
from rslm.measurements import Entries as Measured
from rslm.solvers.stopping import Progress

NAME = "RSLM"
PROBLEM = "C · Σ max(|error| − ε, 0) + ½ ‖W‖_*²"
GRID = (1e1, 1e2, 1e3, 1e4)
TOL = 1e-3  # relative gradient


def fit(data: Entries, rank: int, weight: float, record: Record, epsilon: float = 0.0) -> None:
    """`weight` is C."""
    loss = EpsilonInsensitive(epsilon) if epsilon else Absolute()
    problem = Problem(loss, Measured.of_columns(data.columns, data.y), C=weight)

    def follow(progress: Progress) -> None:
        record(progress.U, progress.V)

    result = solve(
        problem, rank, tol=TOL, max_iter=500, callback=follow, random_state=0, n_threads=data.threads, certificate=False
    )
    record(result.U, result.V)
