"""Arrays in, arrays out: the compiled kernels. `reference` has a NumPy twin of each that is obviously right."""

from rslm.kernels._native import instruction_set, instruction_sets, use_instruction_set
from rslm.kernels.columns import Columns, Factors, Solved, predict_pairs

__all__ = [
    "Columns",
    "Factors",
    "Solved",
    "instruction_set",
    "instruction_sets",
    "predict_pairs",
    "use_instruction_set",
]
