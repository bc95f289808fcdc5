"""The system of a Hankel structure whose samples are observed: factorised, or solved by iteration, as time and memory
suggest.

A factorisation takes n·d² multiplications for n samples and windows of d, and n·d numbers of memory. An iteration takes
2r FFTs of length n per step, and the memory of some n × r matrices. The same system is solved once for the value at U
and once for every Hessian product.
"""

from __future__ import annotations

import math
import os

from rslm.inner.linear.banded import Banded, different_channels
from rslm.inner.linear.deflated import Deflated
from rslm.inner.linear.systems import Iterative, System, Theta, penalty_product
from rslm.runtime.types import Floats
from rslm.structures import Hankel

# Nanoseconds, typical of several processors: only their ratios matter.
FACTOR = 0.03  # of a factorisation, per multiplication
SOLVE = 1.5  # of a solve with the factors, per number in the bands
PRODUCT = 0.55  # of a step of the iteration, per FFT and per n log₂ n
OVERHEAD = 1.5e5  # of one step of the iteration on the shortest series
STEPS, SOLVES = 18, 12  # steps of a solve, and solves at one U
MOST_IN_BANDS = 256 << 20  # bytes of the bands of one system; those of two points are in memory together
MATRICES = 24  # n × r matrices in memory where the system is solved by iteration


def hankel_system(structure: Hankel, of_loss: Floats, theta: Theta, relative_gradient: float) -> System:
    """A with the diagonal matrix `of_loss` for C M*D M; `relative_gradient` determines the accuracy of iterations."""
    rank = theta.Q.shape[1]
    blocks = len(different_channels(of_loss.reshape(structure.channels, -1))[0])
    if is_factorised(structure, rank, blocks):
        return Banded(structure, of_loss, theta)
    check_memory(structure, rank)
    penalty = penalty_product(structure, theta)
    return Iterative(lambda x: of_loss * x + penalty(x), Deflated(structure, of_loss, theta), relative_gradient)


def is_factorised(structure: Hankel, rank: int, blocks: int) -> bool:
    """Whether the system is factorised; `blocks` is the number of different channels."""
    d, n, channels = structure.window, structure.samples, structure.channels
    if 8 * n * d * blocks > MOST_IN_BANDS:
        return False
    by_factors = n * d * (FACTOR * d * blocks + SOLVE * SOLVES * channels)
    product = PRODUCT * 2 * rank * n * math.log2(n + 1) * channels + OVERHEAD
    return by_factors <= product * (STEPS * SOLVES + 2 * rank)


def check_memory(structure: Hankel, rank: int) -> None:
    """Raise an error if the machine has less memory than even an iteration needs."""
    needed, there = 8 * structure.size * rank * MATRICES, physical_memory()
    if needed > there:
        raise MemoryError(
            f"{structure!r} of rank {rank} needs about {needed / 1e9:.3g} GB of memory, and the machine has "
            f"{there / 1e9:.3g} GB: lower the rank, or use fewer of the {structure.samples} samples"
        )


def physical_memory() -> float:
    """Bytes of memory of this machine; infinite if it does not say."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not on every system
        return math.inf
