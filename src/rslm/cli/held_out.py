"""Errors of a completed matrix on held-out entries, compared with those of the mean and of effects alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from rslm import ImplicitCompletion
from rslm.data import ObservedMatrix
from rslm.estimators.completion import Completion
from rslm.estimators.completion.learned import effects_entries, learned_entries
from rslm.evaluate import coverage_and_width, rank_items, ranking_report
from rslm.evaluate.errors import mean_absolute, root_mean_square

RMSE, ACCURACY = "held_out_RMSE", "held_out_accuracy"
TOP = 10  # places of a ranking that count if nothing is said


def rmse(model: Any, data: ObservedMatrix) -> float:
    return root_mean_square(learned_entries(model, data) - data.values, data.weights)


def accuracy(model: Any, data: ObservedMatrix) -> float:
    return right(learned_entries(model, data), data)


def right(found: Any, data: ObservedMatrix) -> float:
    """The fraction of correct classes."""
    return float(np.average((found > 0) == (data.values > 0), weights=data.weights))


def held_out_facts(model: Completion, train: ObservedMatrix, test: ObservedMatrix) -> dict[str, float]:
    """The error of the model and of the two simplest predictions, by weights if there are any."""
    alone = effects_entries(model, train, test)
    if model.classes_ is not None:
        ones = float(np.average(test.values > 0, weights=test.weights))
        guess = ones if np.average(train.values > 0, weights=train.weights) > 0.5 else 1.0 - ones
        others = {"accuracy_of_effects_alone": right(alone, test), "accuracy_of_the_more_frequent_class": guess}
        return {ACCURACY: accuracy(model, test)} | others
    mean = root_mean_square(test.values - np.average(train.values, weights=train.weights), test.weights)
    of_effects = root_mean_square(alone - test.values, test.weights)
    facts = {RMSE: rmse(model, test), "RMSE_of_effects_alone": of_effects, "RMSE_of_the_mean": mean}
    if model.loss != "square":  # a few gross errors may dominate the RMSE
        facts["held_out_median_error"] = float(np.median(np.abs(learned_entries(model, test) - test.values)))
    return facts


def interval_facts(model: Completion, test: ObservedMatrix | None, coverage: float | None) -> dict[str, float]:
    """How many of the held-out entries intervals cover, and their mean width; nothing without a coverage."""
    if coverage is None:
        return {}
    found = {"interval": coverage}
    if test is None:  # what intervals need is computed before the model is saved
        row, col = ([0] if ids is None else ids[:1] for ids in (model.row_ids_, model.col_ids_))
        model.predict_interval(row, col, coverage)
        return found
    covered, width = coverage_and_width(model, test, coverage)
    return found | {"held_out_covered": covered, "mean_width_of_intervals": width}


def error_facts(model: Completion, test: ObservedMatrix) -> dict[str, float]:
    """The errors of the model on entries of its own rows and columns, or its accuracy if there are two classes."""
    if model.classes_ is not None:
        return {"accuracy": accuracy(model, test)}
    errors = learned_entries(model, test) - test.values
    return {"RMSE": root_mean_square(errors, test.weights), "MAE": mean_absolute(errors, test.weights)}


def ranking_facts(
    model: Completion | ImplicitCompletion, test: ObservedMatrix, at: list[int] | None, relevant_from: float | None
) -> dict[str, float]:
    """The metrics of the model's rankings for the rows of the test entries."""
    places = at or [min(TOP, test.shape[1])]
    rows = np.flatnonzero(test.row_counts())
    users = rows if model.row_ids_ is None else model.row_ids_[rows]
    known = None if model.known_ is None else "fitted"
    ranking = rank_items(model, max(places), known=known, users=users, n_threads=model.n_threads)
    return ranking_report(ranking, test, places, train=model.known_, relevant_from=relevant_from)


def better_guess(facts: dict[str, Any]) -> str | None:
    """Which of the simplest predictions is better on held-out entries than the model, in words; None if none is."""
    if RMSE in facts:
        errors = {"the mean predicts": "RMSE_of_the_mean", "effects alone predict": "RMSE_of_effects_alone"}
        better = {name: facts[key] for name, key in errors.items() if facts.get(key, np.inf) < facts[RMSE]}
    elif ACCURACY in facts:
        keys = {
            "the more frequent class predicts": "accuracy_of_the_more_frequent_class",
            "effects alone predict": "accuracy_of_effects_alone",
        }
        better = {name: -facts[key] for name, key in keys.items() if facts.get(key, -1.0) > facts[ACCURACY]}
    else:
        return None
    return min(better, key=better.__getitem__) if better else None
