"""Models on disk: NumPy arrays and a JSON header in one zip file. Reading one runs no code that the file brings."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from dataclasses import fields
from pathlib import Path
from typing import IO, Any, ClassVar, Protocol, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from rslm.data.appearing import appearing_bytes
from rslm.estimators import bounds
from rslm.losses import BY_NAME, Loss
from rslm.version import __version__

FORMAT, FORMAT_VERSION = "rslm model", 1
WRITERS = "model.save(path) and rslm complete --model"
HEADER, CHECKSUM = "header", "checksum"
OWN = "a loss of your own: "
ZIP = b"PK\x03\x04"  # how a zip file begins

Arrays = dict[str, NDArray[Any]]
Facts = dict[str, Any]


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
    arrays |= more or {}
    header = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "library": __version__,
        "estimator": type(model).__name__,
        "params": {name: _plain(name, value) for name, value in model.get_params(deep=False).items()},
        "facts": facts,
    }
    arrays[HEADER] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    with appearing_bytes(path) as file:
        np.savez(file, allow_pickle=False, **{CHECKSUM: _checksum(arrays)}, **arrays)


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
    name, header, arrays = os.fspath(path), None, {}
    with Path(path).open("rb") as raw:  # a missing file or permission is said as such
        if raw.read(len(ZIP)) == ZIP:
            raw.seek(0)
            try:
                arrays = _arrays(raw)
                header = json.loads(arrays[HEADER].tobytes()) if HEADER in arrays else None
            except Exception as e:  # zipfile, zlib, struct and NumPy have a dozen ways to say it
                raise ValueError(f"{name!r} is damaged ({type(e).__name__}). Save the model again.") from e
    if header is None:
        raise ValueError(f"{name!r} is not a model of rslm; models are written by {WRITERS}")
    return _build(name, header, arrays)


def _arrays(raw: IO[bytes]) -> Arrays:
    """What a file holds. Models are not compressed, so that nothing in them is larger than the file."""
    with zipfile.ZipFile(raw) as archive:
        if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
            raise ValueError("compressed")
    raw.seek(0)
    with np.load(raw, allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


def _checksum(arrays: Arrays) -> NDArray[np.uint8]:
    """SHA-256 of all arrays, their names, types and shapes: a file that was edited is not taken for a model."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        digest.update(array.view(np.uint8).reshape(-1).data if array.size else b"")
    return np.frombuffer(digest.digest(), dtype=np.uint8)


def _build(path: str, header: Any, arrays: Arrays) -> Any:
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ValueError(f"{path!r} is not a model of rslm; models are written by {WRITERS}")
    if header.get("version") != FORMAT_VERSION:
        raise ValueError(
            f"{path!r} has format version {header.get('version')!r}, written by rslm {header.get('library')}; this is "
            f"rslm {__version__}, which reads version {FORMAT_VERSION}. Use the same version of rslm for both."
        )
    estimator = _Registry.classes.get(str(header.get("estimator")))
    if estimator is None:
        raise ValueError(f"{path!r} holds a {header.get('estimator')!r}, which this version of rslm does not know")
    checksum = arrays.pop(CHECKSUM, None)
    if checksum is None or not np.array_equal(checksum, _checksum(arrays)):
        raise ValueError(f"{path!r} has been changed since it was written. Save the model again.")
    try:
        return estimator._from_file(header["params"], arrays, header["facts"])
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as e:
        raise ValueError(f"{path!r} is damaged: {e} is missing or wrong. Save the model again.") from e


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
