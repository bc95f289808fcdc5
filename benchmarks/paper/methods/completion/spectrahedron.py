"""The solvers of rslm as methods of completion."""

from __future__ import annotations

from paper.observed import Entries
from paper.record import Record
from rslm import Problem, solve
from rslm.losses import Square
from rslm.measurements import Entries as Measured
from rslm.solvers.stopping import Progress

TOL = 1e-6  # relative gradient: the default of rslm


def solve_on_spectrahedron(
    data: Entries, rank: int, C: float, record: Record, solver: str, tol: float = TOL, max_iter: int = 500
) -> None:
    problem = Problem(Square(), Measured.of_columns(data.columns, data.y), C=C)

    def follow(progress: Progress) -> None:
        record(progress.U, progress.evaluation.V)

    solve(
        problem,
        rank,
        solver=solver,
        tol=tol,
        max_iter=max_iter,
        callback=follow,
        random_state=0,
        n_threads=data.threads,
        certificate=False,
    )
