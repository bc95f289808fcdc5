"""Which settings a fit has found, and why, in a few words."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import numpy as np

from rslm.estimators.defaults import needs_width
from rslm.estimators.tasks.words import WITHOUT_LOW_RANK

LITTLE = 0.01  # a share of the error that is too small to matter


def search_facts(model: Any) -> dict[str, Any]:
    """For --json: how many settings were tried, and the errors of the held-out entries of the search."""
    if model.path_ is None:
        return {}
    if "popularity" in model.held_out_:
        return {"search": {"settings": len(model.path_["C"]), "measure": model.metric, **model.held_out_}}
    errors = {f"error_of_{name}": float(value) for name, value in model.held_out_.items()}
    return {"search": {"settings": len(model.path_["C"]), "measure": measure(model), **errors}}


def loss_used(model: Any) -> str:
    """The loss as it can be given again: with the width that was found."""
    return f"{model.loss}:{astuple(model.loss_)[0]:.4g}" if needs_width(model.loss) else str(model.loss)


def measure(model: Any) -> str:
    """What the errors of a search are."""
    if getattr(model, "loss", "square") != "square":  # panels have no choice
        return "mean loss"
    return "RMSE in standard deviations" if _standardised(model) else "RMSE"


def _standardised(model: Any) -> bool:
    return getattr(model, "_in_deviations", False)


def in_words(model: Any) -> list[str]:
    """Sentences about the search, and whether the low-rank part helps."""
    if model.path_ is None:
        return []
    if "pooled" in model.held_out_:
        return [_of_tasks(model)]
    if "popularity" in model.held_out_:
        return [_of_ranking(model)]
    if hasattr(model, "att_"):
        return [_of_panel(model)]
    errors = model.held_out_
    tried, count = len(model.path_["C"]), len(np.unique(model.path_["rank"]))
    ranks = f"{count} ranks" if count > 1 else "one rank"
    what = f"rank {model.rank_}, C = {model.C_:.3g}, weighting {model.weighting_:g}" if model.rank_ else "effects alone"
    alone = "" if model.effects is None else f", effects alone {errors['effects']:.4g}"
    mean = "the mean of each feature" if _standardised(model) else "the mean"
    said = [
        f"Settings found: {what}; the best of {tried} with {ranks}, by entries held out of those to learn from: "
        f"{measure(model)} {errors['model']:.4g}{alone}, {mean} {errors['mean']:.4g}."
    ]
    if model.rank_ == 0:
        said.append("The low-rank part does not help here: effects alone predict held-out entries as well.")
    elif model.effects is not None and not errors["model"] < errors["effects"]:
        said.append(
            f"The low-rank part does not help at rank {model.rank_}: effects alone predict held-out entries as well. "
            "Without --rank, the rank is found."
        )
    elif model.effects is not None and errors["model"] > (1.0 - LITTLE) * errors["effects"]:
        said.append("The low-rank part hardly helps: effects alone predict held-out entries almost as well.")
    return said


def _of_tasks(model: Any) -> str:
    """The same for tasks, which are compared with one model for all and with one for each."""
    names = {"model": "error", "pooled": "one model for all tasks", "by_task": "one for each task", "mean": "the mean"}
    errors = ", ".join(f"{name} {model.held_out_[key]:.4g}" for key, name in names.items() if key in model.held_out_)
    known = WITHOUT_LOW_RANK.get(model.task_part_)
    what = f"rank {model.rank_}, C = {model.C_:.3g}" if known is None else known[0]
    tried = len(model.path_["C"])
    return f"Settings found: {what}; the best of {tried}, by rows held out of those to learn from: {errors}."


def _of_ranking(model: Any) -> str:
    """The same for what people took, which is compared with the most popular items."""
    found = model.held_out_
    return (
        f"Settings found: rank {model.rank_}, C = {model.C_:.3g}, alpha0 {model.alpha0_:.3g}, weighting "
        f"{model.weighting_:g}; the best of {len(model.path_['C'])}, by items held out of those to learn from: "
        f"{model.metric} {found['model']:.4g}, the most popular items {found['popularity']:.4g}."
    )


def averaged(model: Any) -> str | None:
    """A sentence about the draws that predictions are means of; None if there are none."""
    if not getattr(model, "n_draws_", 0):
        return None
    return (
        f"Predictions are means of {model.n_draws_} draws from a posterior with noise {model.noise_:.4g}. What is said "
        "of the optimum is of the matrix that they start from."
    )


def _of_panel(model: Any) -> str:
    """The same for effects in a panel, where outcomes of control units were held out."""
    found = model.held_out_
    return (
        f"Settings found: C = {model.C_:.3g}; the best of {len(model.path_['C'])}, by outcomes of control units held "
        f"out: RMSE {found['model']:.4g}, effects of units and periods alone {found['effects']:.4g}."
    )


def verdict(model: Any) -> str:
    """How far the answer can be from the optimum; where nothing of low rank was solved for, what there is instead."""
    if model.certificate_ is not None:
        return str(model.certificate_.verdict)
    if hasattr(model, "verdict_"):
        return str(model.verdict_)
    part = getattr(model, "task_part_", None)
    if part in WITHOUT_LOW_RANK:
        return WITHOUT_LOW_RANK[part][1]
    return "There is no certificate: nothing of low rank was solved for, or there was no time for it."
