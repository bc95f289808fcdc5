"""min C ‖P_Ω(W − Y)‖² + ½ ‖W‖_*²  with W ≥ 0 at a rank: the non-negative completion of the paper.

The trust region of rslm on the spectrahedron. Bounds are soft at first; the last factors satisfy them.
"""

from __future__ import annotations

from paper.observed import Entries
from paper.record import Record
from rslm import Problem, solve
from rslm.losses import Square
from rslm.measurements import Entries as Measured
from rslm.solvers.stopping import Progress
from rslm.structures import Box

NAME = "RSLM"
PROBLEM = "C · squares + ½ ‖W‖_*², W ≥ 0"
GRID = (1e1, 1e2, 1e3, 1e4)
TOL = 1e-4  # relative gradient


def fit(data: Entries, rank: int, weight: float, record: Record) -> None:
    """`weight` is C."""
    problem = Problem(Square(), Measured.of_columns(data.columns, data.y), structure=Box(0.0, None), C=weight)

    def follow(progress: Progress) -> None:
        record(progress.U, progress.V)

    result = solve(
        problem, rank, tol=TOL, max_iter=500, callback=follow, random_state=0, n_threads=data.threads, certificate=False
    )
    record(result.U, result.V)
