"""Constructor parameters that several estimators share: what was given, what is meant."""

from __future__ import annotations

import math
import warnings
from dataclasses import fields, is_dataclass
from importlib.util import find_spec
from typing import Any, cast

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from rslm.data.convert import as_numbers
from rslm.data.splits import Seed, as_generator
from rslm.losses import BY_NAME, Loss
from rslm.measurements.features import checked_features
from rslm.solvers import Outcome
from rslm.solvers.stopping import Progress

OWN = "a loss of your own: "  # how a file names one, which it does not hold
STREAMING = "streaming"  # the outcome of a fit that partial_fit continues
RELAXED = {"loss": "loss rounded by", "bounds": "bounds softened by", "structure": "structure smoothed by"}
FAR = 1e-3  # a relative gradient at which a solver that stalls has not found what it was looking for


def as_loss(given: Any) -> Loss:
    """The loss that a name stands for, "huber:0.5" with a parameter, or the instance that was given."""
    if isinstance(given, Loss):
        return given
    if isinstance(given, str) and given.startswith(OWN):
        name = given.removeprefix(OWN)
        raise ValueError(
            f"the file of this model names its loss, {name}, but does not hold it; put it in with "
            f"model.set_params(loss={name}(...))"
        )
    name, colon, parameter = given.partition(":") if isinstance(given, str) else ("", "", "")
    if name not in BY_NAME:
        raise ValueError(
            f"loss must be one of {sorted(BY_NAME)} or a Loss, such as rslm.losses.Huber(0.5); got {given!r}"
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
    """A generator; but a number as it is, so that a checkpoint can be compared with it."""
    generator = as_generator(random_state)  # also where it is an error
    return int(random_state) if isinstance(random_state, int | np.integer) else generator


def checked_data(estimator: Any, X: Any, *targets: Any, **how: Any) -> Any:
    """Data by scikit-learn's rules; but with messages of our own where X is no matrix of numbers."""
    with np.errstate(invalid="ignore", over="ignore"):  # of sums by which scikit-learn looks for what is not finite
        checked = validate_data(estimator, as_numbers(X), *targets, **how)
    if how.get("ensure_all_finite", True):  # they are features, which are multiplied
        checked_features(checked[0] if targets else checked)
    return checked


def needs_distributed() -> None:
    """What a client needs."""
    if find_spec("distributed") is None:
        raise ModuleNotFoundError("a client needs one more package: pip install 'rslm[distributed]'")


def line(p: Progress) -> str:
    """One iteration, for the log."""
    return (
        f"rank {p.U.shape[1]}  iteration {p.iteration:3d}  objective {p.value:.10e}  "
        f"relative gradient {p.relative_gradient:.1e}  {p.evaluations} evaluations  "
        f"{p.hessian_products} Hessian products  {p.seconds:.2f} s  C {p.C:g}"
        + "".join(f"  {RELAXED[r.of]} {r.amount:.1e}" for r in p.relaxations if r.of in RELAXED and r.amount < math.inf)
        + (f"  relative gap {p.relative_gap:.1e}" if p.relative_gap >= 0 else "")
    )


def warn_if_not_converged(outcome: Outcome, max_iter: int, relative_gradient: float, bounded: bool = False) -> None:
    """Tell what an outcome that is no convergence means for the user, who is five calls above."""
    if outcome is Outcome.ITERATIONS:
        advice = f"not converged after max_iter={max_iter} iterations; raise max_iter or tol"
    elif outcome is Outcome.STALLED and relative_gradient > FAR:
        advice = f"no step lowers the objective any more, but its relative gradient is {relative_gradient:.1e}; lower C"
    elif outcome is Outcome.FAILED and bounded:
        advice = (
            "no matrix of this rank was found within the bounds, and this one is beyond them; raise the rank, or widen "
            "the bounds"
        )
    elif outcome is Outcome.FAILED:
        advice = "the objective is not a finite number; rescale the data or lower C"
    else:
        return
    warnings.warn(advice, ConvergenceWarning, stacklevel=5)
