"""Weights of regularisation, chosen on held-out entries of the training part."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from paper.cells import Result

BETWEEN = (10**-0.5, 10**-0.25, 10**0.25, 10**0.5)  # relative to the best decade
WORSE = 0.03  # above the least error by this much twice in a row: weaker regularisation is not tried


def choose(
    errors_of: Callable[[float], Sequence[float]], grid: Sequence[float], between: Sequence[float] = BETWEEN
) -> Result:
    """The weight with the least held-out error at the end of a fit ("end"), and along a fit ("early").

    `errors_of` gives the held-out errors of all iterates of a fit with a weight; `grid` begins with the strongest. A
    method that overfits has its least error before its end, and at a smaller weight.
    """
    tried: dict[float, tuple[float, float]] = {}

    def attempt(weight: float) -> None:
        if weight not in tried:
            errors = errors_of(weight)
            tried[weight] = errors[-1], min(errors)

    def best(criterion: int) -> float:
        return min(tried, key=lambda w: tried[w][criterion])

    for weight in grid:
        attempt(weight)
        if len(tried) > 1 and all(least > tried[best(1)][1] + WORSE for _, least in list(tried.values())[-2:]):
            break
    if len(grid) > 1:
        for centre in (best(0), best(1)):
            for factor in between:
                attempt(centre * factor)
    return {
        "end": best(0),
        "early": best(1),
        "tried": [{"weight": w, "end": end, "least": least} for w, (end, least) in tried.items()],
    }
