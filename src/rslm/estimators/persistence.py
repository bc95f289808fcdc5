"""Models on disk: files of arrays and JSON, see `rslm.storage.container`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from rslm.certificate import Certificate
from rslm.certificate.relaxation import RELAXED, amounts_by_iteration, relaxations_of
from rslm.data import parts
from rslm.data.parts import part_of
from rslm.estimators.choices import OWN, STREAMING, as_loss
from rslm.losses import BY_NAME, Loss
from rslm.runtime.threads import thread_count
from rslm.solvers import Outcome
from rslm.storage.container import Arrays, Facts, Kind, plain_scalar, read_container, write_container

MODEL = Kind("model", 2, "model.save(path) and rslm complete --model", "Save the model again.")

BEFORE = ("rounding", "softness", "smoothing")  # the relaxations of loss, bounds and structure in earlier files
MOST_THREADS = 1 << 16  # more than any machine has

Form = tuple[Callable[[Any], Any], Callable[[Any], Any]]  # how a parameter is written as JSON, and how it is read

ESTIMATORS: dict[str, type[Any]] = {}  # those that `load` knows, by the name in the file

S = TypeVar("S", bound=type[Any])


def storable(cls: S) -> S:
    """Let `load` find an estimator class."""
    ESTIMATORS[cls.__name__] = cls
    return cls


def save(model: Any, path: str | os.PathLike[str], more: Arrays | None = None) -> None:
    """Write a fitted model and, with it, `more` arrays. The file appears whole or not at all."""
    arrays, facts = model._to_file()
    params = {
        name: model._forms[name][0](value) if name in model._forms else _plain(name, value)
        for name, value in model.get_params(deep=False).items()
    }
    header = {"estimator": type(model).__name__, "params": params, "facts": facts}
    arrays |= more or {}
    if type(model).__name__ in ESTIMATORS:  # `load` does not know a user's own class
        _check_loads(model, header, arrays)
    write_container(path, MODEL, header, arrays)


def _check_loads(model: Any, header: Facts, arrays: Arrays) -> None:
    """A file that could not be loaded is refused now, while the model still exists."""
    read = json.loads(json.dumps(header, default=plain_scalar))
    try:
        with np.errstate(all="ignore"):
            type(model)._from_file(read["params"], dict(arrays), read["facts"])
    except Exception as e:
        raise ValueError(
            f"the model is not saved, because it could not be loaded again: {part_of(e)} is not finite, or not as it "
            "is after a fit; if the data are very large or very small, rescale them and fit again"
        ) from e


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that `save` has written.

    Parameters
    ----------
    path : path

    Returns
    -------
    estimator
        Of the class that was saved, fitted. No code from the file is run.
    """
    name = os.fspath(path)
    header, arrays = read_container(path, MODEL)
    estimator = ESTIMATORS.get(str(header.get("estimator")))
    if estimator is None:
        raise ValueError(f"{name!r} holds a {header.get('estimator')!r}, which this version of rslm does not know")
    try:
        with np.errstate(all="ignore"):  # of numbers that are far too large, which are refused
            return estimator._from_file(header["params"], arrays, header["facts"])
    except Exception as e:  # a damaged header may cause any error
        raise ValueError(f"{name!r} is damaged: {part_of(e)} is missing or wrong. {MODEL.remedy}") from e


def read_params(forms: dict[str, Form], params: Facts) -> Facts:
    """Constructor parameters from a file; those without a form of their own are scalars or lists of scalars."""
    for name, value in params.items():
        flat = value if isinstance(value, list) else [value]
        if name not in forms and not all(v is None or isinstance(v, bool | int | float | str) for v in flat):
            raise ValueError(name)
    return {name: forms[name][1](value) if name in forms else value for name, value in params.items()}


def _plain(name: str, value: Any) -> Any:
    """A constructor parameter as JSON. A random generator is left out: a fitted model does not need it."""
    if isinstance(value, np.random.Generator | np.random.RandomState):
        return None
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Loss):
        return loss_to_plain(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(name, v) for v in value]
    raise ValueError(f"the parameter {name}={value!r} cannot be written to a file")


def loss_to_plain(loss: Loss) -> Facts:
    """A loss as its name and parameters. Of a user's own loss only the name: a file holds no code."""
    name = next((name for name, known in BY_NAME.items() if type(loss) is known), None)
    if name is None:
        return {"own": type(loss).__name__}
    return {"name": name, **{field.name: getattr(loss, field.name) for field in fields(cast(Any, loss))}}


def loss_from_plain(plain: Any) -> Any:
    """The loss in a file; for a user's own loss a string with its name, which differs from all built-in names."""
    if not isinstance(plain, dict):
        return plain
    if "own" in plain:
        return OWN + plain["own"]
    return BY_NAME[plain["name"]](**{k: v for k, v in plain.items() if k != "name"})


LOSS_FORM: Form = (lambda loss: _plain("loss", loss)), loss_from_plain


def outcome_of(facts: Facts) -> str:
    found = parts.text(facts, "outcome_")
    return found if found == STREAMING else Outcome(found).value


def certificate_of(facts: Facts) -> Certificate | None:
    found = facts["certificate"]
    if found is None:
        return None
    kinds: Any = {"method": parts.text, "rank": parts.whole, "stationary": parts.flag}
    known = [f.name for f in fields(Certificate) if f.name in found and f.name != "relaxations"]
    if len(known) + sum(name in found for name in ("relaxations", *BEFORE)) < len(found):
        raise ValueError("certificate")
    if "relaxations" in found:
        pairs = [(parts.text(r, "of"), parts.number(r, "amount", least=0.0)) for r in found["relaxations"]]
        amounts = [dict(pairs).get(of, 0.0) for of in RELAXED]
        if len(pairs) != sum(amount > 0 for amount in amounts):
            raise ValueError("certificate")
    else:
        amounts = [0.0, *(parts.number(found, name, least=0.0) if name in found else 0.0 for name in BEFORE)]
    numbers = {name: kinds.get(name, parts.any_number)(found, name) for name in known}
    return Certificate(**numbers, relaxations=relaxations_of(amounts))


def history_to_arrays(history: dict[str, Any]) -> Arrays:
    """The history as arrays: of the relaxations one column for each part that can be relaxed."""
    arrays = {f"history_{name}": values for name, values in history.items() if name != "relaxations"}
    if "relaxations" in history:
        arrays["history_relaxations"] = np.column_stack(list(amounts_by_iteration(history["relaxations"]).values()))
    return arrays


def history_of(arrays: Arrays) -> dict[str, Any]:
    names = {name.removeprefix("history_"): name for name in arrays if name.startswith("history_")}
    packed = names.pop("relaxations", None)
    read = {name: parts.floats(arrays, given, None, finite=False) for name, given in names.items()}
    if len({len(values) for values in read.values()}) > 1:
        raise ValueError("history")
    amounts = None
    if packed is not None:
        amounts = parts.floats(arrays, packed, len(read["objective"]), len(RELAXED), finite=False)
    elif BEFORE[0] in read:  # NaN stood for a part that was left out or replaced
        before = [np.nan_to_num(read.pop(name), nan=np.inf) for name in BEFORE if name in read]
        none = np.zeros(len(before[0]))
        amounts = np.column_stack([none, *before, *(none for _ in BEFORE[len(before) :])])
    return read if amounts is None else read | {"relaxations": [relaxations_of(row) for row in amounts]}


def check_settings(params: Facts) -> None:
    """Check parameters that a fitted model needs to predict; the others are checked when it is fitted again."""
    if thread_count(params.get("n_threads")) > MOST_THREADS:
        raise ValueError("n_threads")
    loss = params.get("loss", "square")
    if not (isinstance(loss, str) and loss.startswith(OWN)):
        as_loss(loss)


def ids_to_array(kind: str, ids: NDArray[Any] | None) -> Arrays:
    """Ids as an array that needs no pickle; ids of mixed types are written as JSON."""
    if ids is None:
        return {}
    if ids.dtype != object:
        return {f"{kind}_ids": ids}
    listed = [i.item() if isinstance(i, np.generic) else i for i in ids]
    strange = [i for i in listed if not isinstance(i, str | int | float)]
    if strange:
        raise ValueError(f"{kind} ids that are neither numbers nor text cannot be written; {strange[0]!r} is one")
    return {f"{kind}_ids_json": np.frombuffer(json.dumps(listed).encode(), dtype=np.uint8)}


def ids_from_array(kind: str, arrays: Arrays) -> NDArray[Any] | None:
    if f"{kind}_ids_json" in arrays:
        listed = json.loads(arrays[f"{kind}_ids_json"].tobytes())
        if not isinstance(listed, list) or not all(isinstance(i, str | int | float) for i in listed):
            raise ValueError(f"{kind}_ids")
        ids = np.empty(len(listed), dtype=object)
        ids[:] = listed
        return ids
    found = arrays.get(f"{kind}_ids")
    if found is not None and (found.ndim != 1 or found.dtype.kind == "V"):
        raise ValueError(f"{kind}_ids")
    return found
