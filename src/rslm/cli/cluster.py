"""`rslm complete --scheduler`: a fit on a cluster whose workers read the data themselves."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from rslm import ImplicitCompletion, MatrixCompletion
from rslm.cli.found import in_words, loss_used, search_facts
from rslm.cli.output import OF_ENTRIES, end, remarks_on, show
from rslm.cli.progress import FitProgress
from rslm.estimators.choices import AUTO, as_loss, needs_distributed
from rslm.estimators.completion.learned import factors_with_effects
from rslm.estimators.implicit.confidence import check_confidence, interactions
from rslm.estimators.implicit.ranking import Metric
from rslm.report.rankings import METRICS

PATIENCE = 10  # seconds to wait for the scheduler and for a worker


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


def implicit_on_cluster(
    console: Console,
    estimator: ImplicitCompletion,
    data: str,
    scheduler: str,
    held: float,
    model: Path | None,
    checkpoint: Path | None,
    before: int,
    json: bool,
    weight: str | None = None,
) -> None:
    """Distribute what people took, fit, and show how held-out entries are ranked."""
    check_confidence(estimator.confidence)
    with connected(scheduler) as client:
        from rslm.distributed import distribute

        with console.status(f"Distributing {data} …"):
            seed: Any = estimator.random_state
            given = distribute(data, client, holdout=held, seed=seed, weights=weight)
            matrix = given.converted(partial(interactions, confidence=estimator.confidence))
        _describe(console, data, scheduler, matrix)
        estimator.rank = estimator.rank if estimator.rank == AUTO else min(estimator.rank, *matrix.shape)
        began = time.perf_counter()
        with remarks_on(console, {"users": "rows", "items": "columns"}):
            progress = FitProgress(console, before=before)
            estimator.set_callbacks(progress).fit(matrix, client=client, checkpoint=checkpoint)
        facts: dict[str, Any] = {"entries": len(matrix), "rank": estimator.rank_, "C": estimator.C_}
        facts |= {"alpha0": estimator.alpha0_, "weighting": estimator.weighting_, "confidence": estimator.confidence}
        if held > 0:
            popularity = np.ones((matrix.shape[0], 1)), matrix.col_counts().astype(np.float64)[:, None]
            for name in METRICS:
                metric = Metric.of(name)
                facts[f"held_out_{name}"] = matrix.ranked(estimator.row_factors_, estimator.col_factors_, metric)
                facts[f"{name}_of_the_most_popular"] = matrix.ranked(*popularity, metric)
        facts |= {"outcome": estimator.outcome_, "iterations": estimator.n_iter_}
        facts |= {"seconds": time.perf_counter() - began, "workers": len(matrix.parts)}
    facts |= {"relative_gap": float(estimator.certificate_.relative_gap)} | search_facts(estimator)
    if model is not None:
        estimator.save(model)
        facts["model"] = str(model)
    show(console, "Result", facts if json else {k: v for k, v in facts.items() if k != "search"}, json)
    for line in in_words(estimator):
        console.print(line)
    console.print(estimator.certificate_.verdict)
    end(console, estimator, checkpoint)


def _describe(console: Console, data: str, scheduler: str, matrix: Any) -> None:
    n, m = matrix.shape
    console.print(f"{data}: distributed among {len(matrix.parts)} workers of {scheduler}")
    console.print(f"{n:,} × {m:,}, {len(matrix):,} entries to fit ({100 * len(matrix) / (n * m):.3g} %)")


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
        _describe(console, data, scheduler, matrix)
        loss = as_loss(shared["loss"])
        limit = AUTO if rank is None else min(rank, *matrix.shape)
        estimator = MatrixCompletion(limit, AUTO if c is None else c, **shared)
        began = time.perf_counter()
        with remarks_on(console, OF_ENTRIES):
            progress = FitProgress(console, before=before)
            estimator.set_callbacks(progress).fit(matrix, client=client, checkpoint=checkpoint)
        facts: dict[str, Any] = {"entries": len(matrix), "rank": estimator.rank_, "C": estimator.C_}
        facts |= {"weighting": estimator.weighting_, "loss": loss_used(estimator)}
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
    facts |= {"relative_gap": float(estimator.certificate_.relative_gap)} | search_facts(estimator)
    if model is not None:
        estimator.save(model)
        facts["model"] = str(model)
    show(console, "Result", facts if json else {k: v for k, v in facts.items() if k != "search"}, json)
    for line in in_words(estimator):
        console.print(line)
    if estimator.rank_ > 0:  # else nothing was asked of W that could be certified
        console.print(estimator.certificate_.verdict)
    if facts.get("held_out_RMSE", 0.0) > facts.get("RMSE_of_the_mean", np.inf):
        console.print(
            "Note: the mean predicts held-out entries better. Try another --loss, or leave --rank and --C out."
        )
    end(console, estimator, checkpoint)
