"""The instruction set that an environment variable names; the command line applies it after importing the kernels."""

from __future__ import annotations

import os

from rslm.kernels import instruction_sets, use_instruction_set

VARIABLE = "RSLM_INSTRUCTION_SET"


def use_named_instruction_set() -> None:
    """Compute with the instruction set that `RSLM_INSTRUCTION_SET` names; with the best one if it is not set."""
    name = os.environ.get(VARIABLE)
    if not name:
        return
    if name not in instruction_sets():
        raise ValueError(
            f"the environment variable {VARIABLE} is {name!r}, and this machine has {', '.join(instruction_sets())}: "
            "set it to one of these, or leave it out for the best"
        )
    use_instruction_set(name)
