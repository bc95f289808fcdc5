"""The facts about a completed matrix, and the matrix as a table."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from rslm import MatrixCompletion
from rslm.cli.found import loss_used, search_facts
from rslm.cli.held_out import held_out_facts
from rslm.data import ObservedMatrix
from rslm.estimators.completion import Completion
from rslm.estimators.completion.learned import learned_rows
from rslm.storage.atomic import atomic_text

ROWS_AT_ONCE = 256


def result(
    model: MatrixCompletion, train: ObservedMatrix, test: ObservedMatrix | None, seconds: float
) -> dict[str, Any]:
    facts: dict[str, Any] = {"entries": len(train), "rank": model.rank_, "C": model.C_, "weighting": model.weighting_}
    facts |= {"effects": model.effects is not None, "loss": loss_used(model)}
    if test is not None:
        facts |= {"held_out_entries": len(test)} | held_out_facts(model, train, test)
    if model.n_draws_:
        facts |= {"draws": model.n_draws_, "noise": model.noise_}
    facts |= {"outcome": model.outcome_, "iterations": model.n_iter_, "seconds": seconds}
    return facts | {"relative_gap": float(model.certificate_.relative_gap)} | search_facts(model)


def write_filled(model: Completion, matrix: ObservedMatrix, path: Path) -> None:
    """Write all entries, observed ones unchanged, a block of rows at a time."""
    known = matrix.to_csr()
    with atomic_text(path) as file:
        writer = csv.writer(file)
        names = range(1, matrix.shape[1] + 1) if matrix.col_ids is None else matrix.col_ids
        writer.writerow(["", *names])
        for start in range(0, matrix.shape[0], ROWS_AT_ONCE):
            block = learned_rows(model, slice(start, start + ROWS_AT_ONCE))
            if model.classes_ is not None:
                block = model.classes_[(block > 0).astype(int)]
            for k, row in enumerate(block, start):
                at = slice(known.indptr[k], known.indptr[k + 1])
                row[known.indices[at]] = known.data[at]
                writer.writerow([k + 1 if matrix.row_ids is None else matrix.row_ids[k], *(f"{v:.6g}" for v in row)])
