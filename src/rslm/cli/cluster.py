"""`rslm complete --scheduler`: a fit on a cluster whose workers read the data themselves."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from rslm import MatrixCompletion
from rslm.cli.output import end, remarks_on, show
from rslm.cli.progress import FitProgress
from rslm.estimators.choices import as_loss, needs_distributed
from rslm.estimators.completion.completion import USUAL_RANK
from rslm.estimators.completion.learned import factors_with_effects
from rslm.estimators.defaults import usual_C, with_width

WEIGHTING = 0.5  # if none is given: it suits ratings, and the default C is meant for it
PATIENCE = 10  # seconds to wait for the scheduler and for a worker
SAMPLE = 100_000  # values from which the default C is computed


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """A client of the scheduler at an address."""
    needs_distributed()
    from distributed import Client as Connect

    make: Any = Connect  # it has no annotations

    try:
        client = make(address, timeout=PATIENCE)
    except (OSError, ValueError):
        raise ConnectionError(f"no Dask scheduler answers at {address}; start one with: dask scheduler") from None
    try:
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise ConnectionError(f"{address} has no workers; start some with: dask worker {address}") from None
        yield client
    finally:
        client.close(timeout=1)


def complete_on_cluster(
    console: Console,
    data: str,
    scheduler: str,
    rank: int | None,
    c: float | None,
    held: float,
    shared: dict[str, Any],
    model: Path | None,
    checkpoint: Path | None,
    before: int,
    json: bool,
    weight: str | None = None,
) -> None:
    """Distribute the data, fit, and show how good the result is; `before`: iterations already in the checkpoint."""
    with connected(scheduler) as client:
        from rslm.distributed import distribute

        with console.status(f"Distributing {data} …"):
            matrix = distribute(data, client, holdout=held, seed=shared["random_state"], weights=weight)
        n, m = matrix.shape
        console.print(f"{data}: distributed among {len(matrix.parts)} workers of {scheduler}")
        console.print(f"{n:,} × {m:,}, {len(matrix):,} entries to fit ({100 * len(matrix) / (n * m):.3g} %)")
        some: Any = matrix.measurement().sample(SAMPLE)
        shared["loss"] = with_width(shared["loss"], some)
        loss = as_loss(shared["loss"])
        C = usual_C(matrix.shape, some, loss) if c is None else c
        shared["weighting"] = WEIGHTING if shared["weighting"] == "auto" else shared["weighting"]
        estimator = MatrixCompletion(min(rank or USUAL_RANK, *matrix.shape), C, **shared)
        if rank is None or c is None:
            console.print("Workers do not search for settings: rank and C are usual ones where none are given.")
        began = time.perf_counter()
        with remarks_on(console, {"samples": "rows", "features": "columns"}):
            progress = FitProgress(console, before=before)
            estimator.set_callbacks(progress).fit(matrix, client=client, checkpoint=checkpoint)
        facts: dict[str, Any] = {"entries": len(matrix), "rank": estimator.rank_, "C": float(C), "loss": shared["loss"]}
        if held > 0:
            found = matrix.held_out(*factors_with_effects(estimator))
            facts["held_out_entries"] = found.entries
            if loss.binary:
                facts |= {"held_out_accuracy": found.accuracy}
                facts |= {"accuracy_of_the_more_frequent_class": found.accuracy_of_majority}
            else:
                facts |= {"held_out_RMSE": found.rmse, "RMSE_of_the_mean": found.rmse_of_mean}
        facts |= {"outcome": estimator.outcome_, "iterations": estimator.n_iter_}
        facts |= {"seconds": time.perf_counter() - began, "workers": len(matrix.parts)}
    facts["relative_gap"] = float(estimator.certificate_.relative_gap)
    if model is not None:
        estimator.save(model)
        facts["model"] = str(model)
    show(console, "Result", facts, json)
    console.print(estimator.certificate_.verdict)
    if facts.get("held_out_RMSE", 0.0) > facts.get("RMSE_of_the_mean", np.inf):
        console.print("Note: the mean predicts held-out entries better. Try another --C or --loss, or --weighting 0.")
    end(console, estimator, checkpoint)
