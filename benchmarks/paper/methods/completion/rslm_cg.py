"""min C ‖P_Ω(W − Y)‖² + ½ ‖W‖_*² at a rank, by the paper's conjugate gradients on the spectrahedron."""

from __future__ import annotations

from paper.methods.completion.spectrahedron import solve_on_spectrahedron
from paper.observed import Entries
from paper.record import Record

NAME = "RSLM-cg"
PROBLEM = "C · squares + ½ ‖W‖_*²"
GRID = (1e1, 1e2, 1e3, 1e4, 1e5)


def fit(data: Entries, rank: int, weight: float, record: Record) -> None:
    """`weight` is C."""
    solve_on_spectrahedron(data, rank, weight, record, "conjugate-gradient")
