"""An observed matrix in a notebook: what it is, and a picture of where its entries are."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from rslm.data.labels import Ids
from rslm.display.fragments import block, captioned, facts, side_by_side
from rslm.display.svg import shades
from rslm.runtime.types import Floats, Indices64

if TYPE_CHECKING:
    from rslm.data.observed import ObservedMatrix

CELLS = 40  # of the picture, in either direction
ENTRIES = 25_000  # read for a row of cells; more are sampled, as the data may be on disk and larger than memory
PIECES = 8  # contiguous ones that a sample consists of, since reading single entries from a disk is slow
NAMES, LONGEST = 5, 24  # ids shown, and their length


@dataclass(frozen=True)
class Overview:
    """What is known of a matrix after reading a bounded number of its entries."""

    cells: Floats  #: share of the entries that is observed, in each cell of a coarse grid
    low: float
    high: float
    mean: float
    sampled: bool  #: whether not all entries were read

    @classmethod
    def of(cls, data: ObservedMatrix) -> Overview:
        edges = [_edges(size) for size in data.shape]
        counts = np.zeros([len(e) - 1 for e in edges])
        total, low, high, sampled = 0.0, np.inf, -np.inf, False
        column = np.repeat(np.arange(len(edges[1]) - 1), np.diff(edges[1])) if data.shape[1] < ENTRIES else None
        ends = np.asarray(data.indptr[edges[0]])
        for k, (start, end) in enumerate(pairwise(ends)):
            read = 0
            sums = np.zeros(len(edges[1]) - 1)
            part = 0.0
            for piece in _pieces(int(start), int(end)):
                index, values = np.asarray(data.index[piece]), np.asarray(data.values[piece], dtype=np.float64)
                cell = np.searchsorted(edges[1], index, side="right") - 1 if column is None else column[index]
                sums += np.bincount(cell, minlength=len(sums))
                part += float(values.sum())
                low, high, read = min(low, float(values.min())), max(high, float(values.max())), read + len(index)
            if read:
                share = (end - start) / read  # the number of entries of the rows is known, however few are read
                counts[k], total, sampled = share * sums, total + share * part, sampled or read < end - start
        size = np.outer(np.diff(edges[0]), np.diff(edges[1]))
        return cls(counts / size, low, high, total / max(data.n_observed, 1), sampled)


def observed_html(data: ObservedMatrix) -> str:
    """Size, values, ids and a picture."""
    rows, columns = data.shape
    known = {"rows × columns": f"{rows:,} × {columns:,}"}
    known["observed entries"] = f"{data.n_observed:,} ({_percent(100 * data.density)} %)"
    picture = ""
    if data.n_observed:
        seen = Overview.of(data)
        about = " in a sample" if seen.sampled else ""
        known[f"values{about}"] = f"{seen.low:.4g} to {seen.high:.4g}"
        known["mean, estimated" if seen.sampled else "mean"] = f"{seen.mean:.4g}"
        known |= {} if data.weights is None else {"weights": "yes"}
        densest = float(seen.cells.max())
        words = f"share of observed entries; the fullest cells have {_percent(100 * densest)} %"
        words = "observed entries" if max(data.shape) <= CELLS else words
        # Roots, so that sparse parts differ visibly from empty ones.
        picture = captioned(shades(np.sqrt(seen.cells / densest), words), words)
    known |= {"row ids": _names(data.row_ids)} if data.row_ids is not None else {}
    known |= {"column ids": _names(data.col_ids)} if data.col_ids is not None else {}
    return block("ObservedMatrix", side_by_side(facts(known), picture))


def _edges(size: int) -> Indices64:
    cells = min(size, CELLS)
    return np.arange(cells + 1, dtype=np.int64) * size // cells


def _pieces(start: int, end: int) -> list[slice]:
    """All entries, or evenly spaced pieces of them."""
    if end - start <= ENTRIES:
        return [slice(start, end)] if end > start else []
    length = ENTRIES // PIECES
    return [slice(at, at + length) for at in np.linspace(start, end - length, PIECES).astype(int).tolist()]


def _names(ids: Ids) -> str:
    shown = [text if len(text) <= LONGEST else text[:LONGEST] + "…" for text in map(str, list(ids[:NAMES]))]
    return ", ".join(shown) + (", …" if len(ids) > NAMES else "")


def _percent(value: float) -> str:
    return f"{value:.1f}" if value >= 0.1 else f"{value:.2g}"
