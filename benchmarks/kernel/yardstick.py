"""The yardstick of ../shared/bench, which is not part of the repository: an evaluation, written directly."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from common import SHARED
from kernel.compiler import compiled

FOLDER = SHARED / "bench"
HIGHEST = 40  # rank: its loops are unrolled, and from here on the sums of a column do not fit the registers at all
HAS = (5, 10, 20)


def there() -> bool:
    return (FOLDER / "reference.py").exists()


def evaluators(processor: str, ranks: list[int]) -> Callable[..., Callable[[], float]]:
    """The yardstick's `evaluator(indptr, index, value, U, C, threads, dtype)`, compiled with -march=processor."""
    sys.path.insert(0, str(FOLDER))
    from reference import Reference

    source = (FOLDER / "reference_kernel.cpp").read_text()
    for rank in ranks:
        if rank not in HAS and rank <= HIGHEST:
            source += f"\nEXPORT(double, f64, {rank}) EXPORT(float, f32, {rank})"
    made: Any = Reference.__new__(Reference)  # its constructor would compile for this processor, without more ranks
    made.lib = compiled(source, f"-march={processor}", "-fopenmp")
    evaluator: Callable[..., Callable[[], float]] = made.evaluator
    return evaluator
