"""Models on disk: files of arrays and JSON, see `rslm.data.sealed`."""

from __future__ import annotations

import json
import os
from dataclasses import fields
from typing import Any, ClassVar, Protocol, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from rslm.data.sealed import Arrays, Facts, Kind, read_sealed, write_sealed
from rslm.estimators import bounds
from rslm.losses import BY_NAME, Loss

MODEL = Kind("model", 2, "model.save(path) and rslm complete --model", "Save the model again.")
OWN = "a loss of your own: "


class Storable(Protocol):
    """What an estimator offers to be saved."""

    def get_params(self, deep: bool = True) -> Facts: ...

    def _to_file(self) -> tuple[Arrays, Facts]:
        """What the fit has learned, as arrays and as facts that JSON can hold."""

    @classmethod
    def _from_file(cls, params: Facts, arrays: Arrays, facts: Facts) -> Self: ...


class _Registry:
    """The estimators that `load` knows, by the name that stands in the file."""

    classes: ClassVar[dict[str, type[Storable]]] = {}


S = TypeVar("S", bound=type[Any])


def storable(cls: S) -> S:
    """Let `load` find an estimator class."""
    _Registry.classes[cls.__name__] = cls
    return cls


def save(model: Storable, path: str | os.PathLike[str], more: Arrays | None = None) -> None:
    """Write a fitted model, and more arrays with it. The file appears whole or not at all."""
    arrays, facts = model._to_file()
    header = {
        "estimator": type(model).__name__,
        "params": {name: _plain(name, value) for name, value in model.get_params(deep=False).items()},
        "facts": facts,
    }
    write_sealed(path, MODEL, header, arrays | (more or {}))


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
    header, arrays = read_sealed(path, MODEL)
    estimator = _Registry.classes.get(str(header.get("estimator")))
    if estimator is None:
        raise ValueError(f"{name!r} holds a {header.get('estimator')!r}, which this version of rslm does not know")
    try:
        return estimator._from_file(header["params"], arrays, header["facts"])
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as e:
        raise ValueError(f"{name!r} is damaged: {e} is missing or wrong. {MODEL.remedy}") from e


def _plain(name: str, value: Any) -> Any:
    """A constructor parameter as JSON. A generator cannot be kept, and a model that is fitted does not need it."""
    if isinstance(value, np.random.Generator | np.random.RandomState):
        return None
    if name == "bounds":
        return bounds.to_plain(value)
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
    """A loss by its name and parameters. One of the user's own is only named: a file brings no code."""
    name = next((name for name, known in BY_NAME.items() if type(loss) is known), None)
    if name is None:
        return {"own": type(loss).__name__}
    return {"name": name, **{field.name: getattr(loss, field.name) for field in fields(cast(Any, loss))}}


def loss_from_plain(plain: Any) -> Any:
    """The loss of a file; of a user's own loss no more than the name, as a string that no built-in loss has."""
    if not isinstance(plain, dict):
        return plain
    if "own" in plain:
        return OWN + plain["own"]
    return BY_NAME[plain["name"]](**{k: v for k, v in plain.items() if k != "name"})


def ids_to_array(kind: str, ids: NDArray[Any] | None) -> Arrays:
    """Ids as an array that needs no pickle; mixed ids go through JSON."""
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
        ids = np.empty(len(listed), dtype=object)
        ids[:] = listed
        return ids
    return arrays.get(f"{kind}_ids")
