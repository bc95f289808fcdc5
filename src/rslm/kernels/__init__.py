"""The compiled kernels: arrays in, arrays out. `reference` has a simple NumPy version of each, used by the tests."""

import os

from rslm.kernels import _native
from rslm.kernels._native import Stopped, ask, instruction_set, instruction_sets, use_instruction_set
from rslm.kernels.bounded import Bound, bound
from rslm.kernels.columns import LANES, Columns, Factors, Solved, Systems
from rslm.kernels.elementwise import BoxNumbers, box_curvature, padded, predict_pairs
from rslm.kernels.feature_rows import FeatureRows
from rslm.kernels.high_rank import WIDTH, Unfactored
from rslm.kernels.pieces import BoxSolved, Piece

_wanted = os.environ.get("RSLM_INSTRUCTION_SET")
if _wanted:  # by default the best one is used
    if _wanted not in instruction_sets():
        raise ValueError(
            f"the environment variable RSLM_INSTRUCTION_SET is {_wanted!r}, and this machine has "
            f"{', '.join(instruction_sets())}: set it to one of these, or leave it out for the best"
        )
    use_instruction_set(_wanted)

if hasattr(os, "register_at_fork"):
    # A forked child does not have the threads of its parent, and would wait for them forever.
    os.register_at_fork(after_in_child=lambda: _native.limit_threads(1))

__all__ = [
    "LANES",
    "WIDTH",
    "Bound",
    "BoxNumbers",
    "BoxSolved",
    "Columns",
    "Factors",
    "FeatureRows",
    "Piece",
    "Solved",
    "Stopped",
    "Systems",
    "Unfactored",
    "ask",
    "bound",
    "box_curvature",
    "instruction_set",
    "instruction_sets",
    "padded",
    "predict_pairs",
    "use_instruction_set",
]
