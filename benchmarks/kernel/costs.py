"""What a kernel has to compute and to move, counted by formula.

Arithmetic: a multiplication and an addition are two flops; the zeros that rows are padded with do not count.

Memory: every array of the length of the entries or the columns is read or written once. A line that is written without
bypassing the caches is read before ("read for ownership"), which is counted separately.

Cache: the rows of U (or V) at the entries are read once, padded to whole registers, and the rows of the sums are read
and written. U and the sums are small and used again and again, so they do not count as memory.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cost:
    """Of one call of a kernel."""

    flops: float  #: in the precision of the rows
    flops_of_systems: float  #: of factorising and solving, in double precision
    read: float  #: bytes from memory
    written: float  #: bytes to memory
    rows_read: int  #: rows of factors per entry
    rows_updated: int  #: rows of sums per entry


@dataclass(frozen=True)
class Size:
    """Of the data and the factors."""

    entries: int
    rows: int
    columns: int
    rank: int

    def evaluation(self, single: bool) -> Cost:
        """The Gram matrix and right-hand side of every column, its solution, the residuals, and the sums of rows."""
        n, T, r, number = self.entries, self.columns, self.rank, 4 if single else 8
        return Cost(
            flops=n * (r * (r + 1) + 2 * r) + n * (2 * r + 3) + n * 2 * r,
            flops_of_systems=T * (r**3 / 3 + 2 * r**2),
            read=4 * n + number * n + 8 * T,
            written=number * n + T * self._factor() + 8 * T * r,
            rows_read=1,
            rows_updated=1,
        )

    def hessian_product(self, single: bool) -> Cost:
        """Two products per entry with rows of U and dU, two right-hand sides, and two sums of rows."""
        n, T, r, number = self.entries, self.columns, self.rank, 4 if single else 8
        return Cost(
            flops=n * (2 * 2 * r + 2 * 2 * r + 2 * 2 * r + 1),
            flops_of_systems=T * 2 * r**2,
            read=4 * n + number * n + 8 * T + T * self._factor() + 8 * T * r,
            written=0.0,
            rows_read=2,
            rows_updated=1,
        )

    def preconditioner(self) -> Cost:
        """The Gram matrix of every row of the data, from the rows of V, and its factor."""
        n, d, r = self.entries, self.rows, self.rank
        return Cost(
            flops=n * r * (r + 1),
            flops_of_systems=d * r**3 / 3,
            read=4 * n + 8 * d,
            written=d * self._factor(),
            rows_read=1,
            rows_updated=0,
        )

    def _factor(self) -> int:
        """Bytes of the triangular factor of one column."""
        return 8 * self.rank * (self.rank + 1) // 2
