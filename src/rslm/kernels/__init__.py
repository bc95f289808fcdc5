"""Arrays in, arrays out: the compiled kernels. `reference` has a NumPy twin of each that is obviously right."""

import os

# Threads that wait for each other would spin for long, at the cost of whoever else needs the core. The library of the
# threads reads this once, when it is loaded; the environment is left as it was.
_spin = os.environ.get("GOMP_SPINCOUNT")
os.environ.setdefault("GOMP_SPINCOUNT", "1000")
from rslm.kernels import _native  # noqa: E402

if _spin is None:
    del os.environ["GOMP_SPINCOUNT"]

from rslm.kernels._native import Stopped, ask, instruction_set, instruction_sets, use_instruction_set  # noqa: E402
from rslm.kernels.bounded import Bound, bound  # noqa: E402
from rslm.kernels.columns import (  # noqa: E402
    LANES,
    BoxNumbers,
    BoxSolved,
    Columns,
    Factors,
    FeatureRows,
    Piece,
    Solved,
    box_curvature,
    padded,
    predict_pairs,
)

if hasattr(os, "register_at_fork"):
    # The threads of a process are not in its children, where waiting for them would never end.
    os.register_at_fork(after_in_child=lambda: _native.limit_threads(1))

__all__ = [
    "LANES",
    "Bound",
    "BoxNumbers",
    "BoxSolved",
    "Columns",
    "Factors",
    "FeatureRows",
    "Piece",
    "Solved",
    "Stopped",
    "ask",
    "bound",
    "box_curvature",
    "instruction_set",
    "instruction_sets",
    "padded",
    "predict_pairs",
    "use_instruction_set",
]
