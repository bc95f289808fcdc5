"""A completed matrix compared with the two simplest predictions: the mean, and effects alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from rslm.data import ObservedMatrix
from rslm.estimators.completion.learned import effects_entries, learned_entries
from rslm.report.page import facts, sentence, table, verdict, warning

LITTLE = 0.01  # a share of the error that is too small to matter
THE_MODEL = "the model"
THE_MEAN, EFFECTS = "the mean of all entries", "effects of rows and columns alone"


def held_out(model: Any, train: ObservedMatrix, test: ObservedMatrix) -> str:
    """How well the model and simpler ones predict held-out entries, and a warning if a simpler one is better."""
    mean = float(np.average(train.values, weights=train.weights))
    if model.classes_ is not None:  # the learned entry is positive for the second class
        mean = float(np.average(train.values > 0, weights=train.weights)) - 0.5
    guesses = {
        THE_MEAN: np.full(len(test), mean),
        EFFECTS: effects_entries(model, train, test),
        THE_MODEL: learned_entries(model, test),
    }
    if model.classes_ is not None:
        wrong = {
            name: float(np.average((w > 0) != (test.values > 0), weights=test.weights)) for name, w in guesses.items()
        }
        shown, measure = {name: f"{100 * (1 - part):.1f} %" for name, part in wrong.items()}, "right"
    else:
        wrong = {
            name: float(np.sqrt(np.average((w - test.values) ** 2, weights=test.weights)))
            for name, w in guesses.items()
        }
        shown, measure = {name: f"{error:.5g}" for name, error in wrong.items()}, "RMSE"
    text = table([list(row) for row in shown.items()], ["predicted by", measure])
    better = [f"{name} ({shown[name]})" for name in wrong if name != THE_MODEL and not wrong[THE_MODEL] <= wrong[name]]
    if better and model.rank_ > 0:
        text += warning(
            f"The model ({measure}: {shown[THE_MODEL]}) predicts worse than {' and '.join(better)}. Do not rely on "
            "it: try another C or another rank, or leave both to be found. If none is better, these entries may have "
            "no structure of low rank."
        )
    return text


def location(model: Any) -> str:
    """Mean and effects of rows and columns."""
    if not has_effects(model):
        return sentence("Without effects: the low-rank part has to explain the mean, too, and is shrunk towards zero.")
    rows = [["mean", f"{model.intercept_:.5g}"]]
    for name, values in (("row effects", model.row_effects_), ("column effects", model.col_effects_)):
        if np.any(values):
            spread = f"{values.min():.4g} to {values.max():.4g}, standard deviation {np.std(values):.3g}"
            rows.append([name, spread])
    return table(rows)


def has_effects(model: Any) -> bool:
    return bool(model.intercept_ or np.any(model.row_effects_) or np.any(model.col_effects_))


def averaging(model: Any) -> str:
    """The draws that predictions are means of; nothing if there are none."""
    if not getattr(model, "n_draws_", 0):
        return ""
    return facts("Average", {"draws from the posterior": model.n_draws_, "noise": f"{model.noise_:.5g}"}) + sentence(
        "Predictions, residuals and held-out errors are of the mean of the draws. Settings and certificate are of the "
        "matrix that the draws start from."
    )


def found(model: Any) -> str:
    """Which settings were found, and the errors of the entries that the search has held out."""
    path = getattr(model, "path_", None)
    if path is None:
        return ""
    settings = {"rank": model.rank_, "C": model.C_, "weighting": model.weighting_, "settings tried": len(path["C"])}
    errors = model.held_out_
    measure = "RMSE" if model.loss == "square" else "mean loss"
    if getattr(model, "_in_deviations", False):
        measure += " in standard deviations"
    rows = [[THE_MEAN, f"{errors['mean']:.5g}"]]
    rows += [] if model.effects is None else [[EFFECTS, f"{errors['effects']:.5g}"]]
    rows.append(["the model with these settings", f"{errors['model']:.5g}"])
    text = facts("Settings that were found", settings)
    text += sentence("They predict best entries that were held out of those to learn from, while searching:")
    return text + table(rows, ["predicted by", measure]) + _whether_it_helps(model)


def _whether_it_helps(model: Any) -> str:
    errors, than = model.held_out_, "the mean" if model.effects is None else "effects alone"
    simple = errors["mean"] if model.effects is None else errors["effects"]
    if model.rank_ == 0:
        return warning(
            "The low-rank part does not help: effects alone predict held-out entries as well. The model is effects "
            "alone, and its rank is 0."
        )
    if not errors["model"] < simple:
        return warning(
            f"The low-rank part does not help at rank {model.rank_}: {than} predict held-out entries as well. Leave "
            "the rank to be found."
        )
    share = 1.0 - errors["model"] / simple if simple > 0 else 0.0
    helps = "helps" if share > LITTLE else "hardly helps"
    return verdict(f"The low-rank part {helps}: the error is {100 * share:.2g} % smaller than that of {than}.")
