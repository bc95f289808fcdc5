"""What bounds of all entries cost: an evaluation looks at every product of a row with a column."""

from __future__ import annotations

RATE = 1.5e9  # multiplications a second of one thread, about
SWEEPS = 2.0  # times that the products are looked at, on the average
WORTH_TELLING = 1.0  # seconds


def seconds_for_bounds(shape: tuple[int, int], rank: int, threads: int) -> float:
    """About how long an evaluation with bounds takes."""
    return SWEEPS * float(shape[0]) * shape[1] * rank / (RATE * threads)


def cost_of_bounds(shape: tuple[int, int], rank: int, threads: int) -> str | None:
    """A line about it; None where it is not worth one."""
    seconds = seconds_for_bounds(shape, rank, threads)
    if seconds < WORTH_TELLING:
        return None
    many = float(shape[0]) * shape[1] / 1e9
    return (
        f"bounds: {many:.2g} billion products of a row with a column an evaluation, about {seconds:.2g} s each on "
        f"{threads} {'thread' if threads == 1 else 'threads'}; max_time limits it"
    )
