"""Which limit of a core is the nearest: the seconds that arithmetic, memory and caches need at least."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernel.costs import Cost
from kernel.machine import Machine

FAR = 1 / 3  # if no limit accounts for a larger share of the seconds, instructions wait for each other


def limits(
    cost: Cost, machine: Machine, threads: int, single: bool, seconds_of_rows: Callable[[bool], float]
) -> dict[str, float]:
    """The least CPU seconds by each limit; `seconds_of_rows` are those of reading or of updating one row per entry."""
    cache = cost.rows_read * seconds_of_rows(False)
    if cost.rows_updated:
        cache += cost.rows_updated * seconds_of_rows(True)
    return {
        "arithmetic": cost.flops / machine.flops[single] + cost.flops_of_systems / machine.flops[False],
        "memory": (cost.read + cost.written) / machine.bandwidth[threads],
        "cache": cache,
    }


def shares(least: dict[str, float], seconds: float) -> dict[str, Any]:
    """Of the seconds that were measured, and the limit in one word."""
    nearest = max(least, key=lambda name: least[name])
    return {
        "of peak": round(least["arithmetic"] / seconds, 3),
        "of memory": round(least["memory"] / seconds, 3),
        "of cache": round(least["cache"] / seconds, 3),
        "limit": nearest if least[nearest] > FAR * seconds else "latency",
    }
