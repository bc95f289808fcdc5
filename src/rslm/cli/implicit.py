"""`rslm complete --implicit`: recommendations from what people took, and how they rank what was held out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.base import clone

from rslm import ImplicitCompletion
from rslm.cli.found import in_words, search_facts
from rslm.cli.output import end, remarks_on, show
from rslm.cli.progress import FitProgress
from rslm.data.files.read import Source
from rslm.estimators.implicit.confidence import positive
from rslm.evaluate import holdout_per_user
from rslm.report import implicit_report, write_report
from rslm.report.rankings import ranking_facts


def complete_implicit(
    console: Console,
    estimator: ImplicitCompletion,
    source: Source,
    held: float,
    *,
    title: str,
    model: Path | None,
    report: Path | None,
    checkpoint: Path | None,
    before: int,
    json: bool,
) -> None:
    """Fit to some items of every user, show how the others are ranked, and write a model of all of them."""
    seed, matrix = estimator.random_state, source.data
    train, test = matrix, None
    taken = positive(matrix)  # before some are held out, which may have the only negative value
    if held > 0 and taken.row_counts().max(initial=0) >= 2:
        train, test = holdout_per_user(taken, held, np.random.default_rng(seed))
    began = time.perf_counter()
    with remarks_on(console, {"users": "rows", "items": "columns"}):
        estimator.set_callbacks(FitProgress(console, before=before)).fit(train, checkpoint=checkpoint)
    seconds = time.perf_counter() - began
    facts: dict[str, Any] = {"entries": len(train), "rank": estimator.rank_, "C": estimator.C_}
    facts |= {"alpha0": estimator.alpha0_, "weighting": estimator.weighting_, "confidence": estimator.confidence}
    if test is not None and len(test):
        facts["held_out_entries"] = len(test)
        for name, (learned, popular) in ranking_facts(estimator, train, test).items():
            facts[f"held_out_{name}"], facts[f"{name}_of_the_most_popular"] = learned, popular
    facts |= {"outcome": estimator.outcome_, "iterations": estimator.n_iter_, "seconds": seconds}
    facts |= {"relative_gap": float(estimator.certificate_.relative_gap)} | search_facts(estimator)
    if model is not None:
        if test is not None and estimator.outcome_ != "interrupted":
            found = {"rank": estimator.row_factors_.shape[1], "C": estimator.C_, "alpha0": estimator.alpha0_}
            again = clone(estimator).set_params(**found, weighting=estimator.weighting_)
            with remarks_on(console, {"users": "rows", "items": "columns"}):
                again.fit(matrix).save(model)
        else:
            estimator.save(model)
        facts["model"] = str(model)
    if report is not None:
        write_report(implicit_report(estimator, train, test, title=title, how=source.how), report)
        facts["report"] = str(report)
    show(console, "Result", facts if json else {k: v for k, v in facts.items() if k != "search"}, json)
    for line in in_words(estimator):
        console.print(line)
    console.print(estimator.certificate_.verdict)
    end(console, estimator, checkpoint)
