"""Matrices in binary files and MatrixMarket; what a header claims is checked before memory is taken for it."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
from numpy.typing import NDArray
from scipy import sparse

from rslm.data.files.tools import opened_if_compressed
from rslm.data.observed import ObservedMatrix

LEAST = 4  # bytes that an entry takes in MatrixMarket: a row, a blank, a column, the end of the line
TRIPLETS = (("rows", "row", "i"), ("cols", "col", "j"), ("values", "data", "y", "ratings"))


def read_market(name: str, source: Path | bytes) -> tuple[ObservedMatrix, str]:
    content = opened_if_compressed(source, name)
    text = content if isinstance(content, bytes) else content.read_bytes()
    if not text.lstrip().lower().startswith(b"%%matrixmarket"):
        raise ValueError(f"{name}, line 1: a MatrixMarket file begins with %%MatrixMarket; got {_shown(text)}")
    try:
        rows, cols, entries, form, field, _ = scipy.io.mminfo(io.BytesIO(text))
        if (entries if form == "coordinate" else rows * cols) * (LEAST if form == "coordinate" else 2) > len(text):
            raise ValueError(f"its header claims {rows} × {cols} with {entries} entries, more than the file can hold")
        matrix = scipy.io.mmread(io.BytesIO(text))
    except (ValueError, OverflowError, TypeError, IndexError) as error:
        raise ValueError(f"{name} is no MatrixMarket file that can be read: {error}") from None
    if field == "pattern":
        raise ValueError(f"{name} holds a pattern without values; add a value to every entry")
    return ObservedMatrix.from_any(matrix), f"MatrixMarket, {form}"


def read_npz(name: str, source: Path | bytes) -> tuple[ObservedMatrix, str]:
    """A sparse matrix of SciPy, one array, or three arrays: rows, cols and values."""
    stream: Any = io.BytesIO(source) if isinstance(source, bytes) else source
    try:
        _check_claims(stream, name)
        with np.load(stream, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, KeyError, struct.error) as error:
        raise ValueError(f"{name} is damaged or no npz file: {error}") from None
    except ValueError as error:
        if "pickle" in str(error):
            raise ValueError(f"{name} holds Python objects, which are not loaded; save arrays of numbers") from None
        raise ValueError(_prefixed(name, error)) from None
    if "format" in arrays and "shape" in arrays:
        return _scipy_sparse(name, source), "sparse matrix of SciPy"
    names = [next((n for n in known if n in arrays), None) for known in TRIPLETS]
    if all(names):
        return _triplets(name, *(arrays[str(n)] for n in names)), f"arrays {', '.join(map(str, names))}"
    return _only_matrix(name, arrays, "npz")


def _check_claims(stream: Any, name: str) -> None:
    """Every array must be as long as its header says."""
    with zipfile.ZipFile(stream) as archive:
        for info in archive.infolist():
            with archive.open(info) as member:
                version = np.lib.format.read_magic(member)
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                shape, _, dtype = read(member)
            if int(np.prod(shape, dtype=object)) * dtype.itemsize > info.file_size:
                raise ValueError(f"{name}: array {info.filename!r} claims shape {shape}, more than the file holds")
    if hasattr(stream, "seek"):
        stream.seek(0)


def _scipy_sparse(name: str, source: Path | bytes) -> ObservedMatrix:
    try:
        return ObservedMatrix.from_any(sparse.load_npz(io.BytesIO(source) if isinstance(source, bytes) else source))
    except (KeyError, TypeError, NotImplementedError) as error:
        raise ValueError(f"{name} is damaged or was not written by scipy.sparse.save_npz: {error}") from None


def read_mat(name: str, source: Path | bytes, variable: str | None) -> tuple[ObservedMatrix, str]:
    stream: Any = io.BytesIO(source) if isinstance(source, bytes) else str(source)
    try:
        content = scipy.io.loadmat(stream)
    except NotImplementedError:
        raise ValueError(f"{name} is of MATLAB's version 7.3; save it with -v7") from None
    except (ValueError, TypeError, OSError, EOFError, KeyError, struct.error, zlib.error, MemoryError) as error:
        raise ValueError(f"{name} is damaged or no MATLAB file: {error}") from None
    variables = {k: v for k, v in content.items() if not k.startswith("__")}
    if variable is not None:
        if variable not in variables:
            raise ValueError(f"{name} has no variable {variable!r}; there are {', '.join(variables) or 'none'}")
        variables = {variable: variables[variable]}
    return _only_matrix(name, variables, "MATLAB")


def _only_matrix(name: str, arrays: dict[str, Any], kind: str) -> tuple[ObservedMatrix, str]:
    matrices = {k: v for k, v in arrays.items() if bool(sparse.issparse(v)) or _is_matrix(v)}
    if len(matrices) != 1:
        found = ", ".join(f"{k} {np.shape(v)}" for k, v in arrays.items()) or "none"
        raise ValueError(f"{name}: one matrix of numbers is needed, or rows, cols and values; the arrays are {found}")
    ((key, matrix),) = matrices.items()
    return ObservedMatrix.from_any(matrix), f"{kind}, variable {key}"


def _is_matrix(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.ndim == 2 and value.dtype.kind in "fiub" and min(value.shape) > 1


def _triplets(name: str, rows: NDArray[Any], cols: NDArray[Any], values: NDArray[Any]) -> ObservedMatrix:
    make = ObservedMatrix.from_triplets if rows.dtype.kind in "iu" and cols.dtype.kind in "iu" else None
    try:
        return make(rows, cols, values) if make else ObservedMatrix.from_ratings(rows, cols, values)
    except (ValueError, TypeError) as error:
        raise ValueError(_prefixed(name, error)) from None


def _prefixed(name: str, error: Exception) -> str:
    return str(error) if str(error).startswith(name) else f"{name}: {error}"


def _shown(text: bytes) -> str:
    return repr(text[:30].decode("latin-1"))
