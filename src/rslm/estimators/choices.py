"""Parameters that several estimators share: what was given, and what it means."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from importlib.util import find_spec
from typing import Any, cast

import numpy as np
from sklearn.utils.validation import validate_data

from rslm.data.convert import as_numbers
from rslm.data.splits import Seed, as_generator
from rslm.losses import BY_NAME, Loss
from rslm.measurements.features import checked_features

AUTO = "auto"  # the value of a setting that is found from the data
OWN = "a loss of your own: "  # prefix of the name of a user's loss in a file, which does not hold the loss itself
ELSEWHERE = {  # names that losses have in scikit-learn and other tools
    "squared_error": "square",
    "mse": "square",
    "absolute_error": "absolute",
    "mae": "absolute",
    "log_loss": "logistic",
    "binary_crossentropy": "logistic",
    "pinball": "quantile",
}
STREAMING = "streaming"  # the outcome of a fit that partial_fit continues


def is_auto(value: Any) -> bool:
    """Whether a setting is left to be found; other types may not be comparable with a word."""
    return isinstance(value, str) and value == AUTO


def as_loss(given: Any) -> Loss:
    """The loss that a name stands for, "huber:0.5" with a parameter, or the instance that was given."""
    if isinstance(given, Loss):
        return given
    if isinstance(given, str) and given.startswith(OWN):
        name = given.removeprefix(OWN)
        raise ValueError(
            f"the file of this model names its loss, {name}, but does not contain it; set it with "
            f"model.set_params(loss={name}(...))"
        )
    name, colon, parameter = given.partition(":") if isinstance(given, str) else ("", "", "")
    if name not in BY_NAME:
        here = f", which is {ELSEWHERE[name]!r} here" if name in ELSEWHERE else ""
        raise ValueError(
            f"loss must be one of {sorted(BY_NAME)} or a Loss, such as rslm.losses.Huber(0.5); got {given!r}{here}"
        )
    if not colon:
        return BY_NAME[name]()
    made: Any = BY_NAME[name]
    if not (is_dataclass(made) and fields(made)):
        raise ValueError(f"the loss {name!r} has no parameter; got {given!r}")
    try:
        number = float(parameter)
    except ValueError:
        raise ValueError(f"what follows {name}: must be a number, as in {name}:0.5; got {given!r}") from None
    return cast(type[Any], made)(number)  # type: ignore[no-any-return]


def as_seed(random_state: Seed) -> int | np.random.Generator:
    """A generator; an integer is kept, so that a checkpoint can be compared with it."""
    generator = as_generator(random_state)  # also checks what was given
    return int(random_state) if isinstance(random_state, int | np.integer) else generator


def checked_data(estimator: Any, X: Any, *targets: Any, **how: Any) -> Any:
    """Data by scikit-learn's rules, with messages of our own where X is no matrix of numbers."""
    with np.errstate(invalid="ignore", over="ignore"):  # of the sums by which scikit-learn finds what is not finite
        checked = validate_data(estimator, as_numbers(X, estimator._instead_of_text), *targets, **how)
    if how.get("ensure_all_finite", True):  # features, which are multiplied
        checked_features(checked[0] if targets else checked)
    return checked


def needs_distributed() -> None:
    """An error if the package that a client needs is not installed."""
    if find_spec("distributed") is None:
        raise ModuleNotFoundError("a client needs one more package: pip install 'rslm[distributed]'")


def is_whole(value: Any, least: int) -> bool:
    """Whether a parameter is an integer, at least this one; True and False are none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= least)


def has_probabilities(model: Any) -> bool:
    """Whether the loss of an estimator gives probabilities, for `available_if`."""
    try:
        able = as_loss(model.loss).probabilistic
    except ValueError:  # no loss at all, which `fit` refuses
        able = False
    if not able:
        raise AttributeError(f"predict_proba needs loss='logistic'; this model has loss={model.loss!r}")
    return True
