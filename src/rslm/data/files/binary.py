"""Matrices in binary files and MatrixMarket; what a header claims is checked before memory is taken for it."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rslm.data.files import market, matlab, stored_sparse
from rslm.data.files.tools import opened_if_compressed
from rslm.data.observed import ObservedMatrix

DENSEST = 1100  # bytes that a byte of a zip file can be unpacked to, and a little more
SIDE, EMPTY = 10_000_000, 1000  # rows or columns that need no entries, and how many there may be for every entry
TRIPLETS = (("rows", "row", "i"), ("cols", "col", "j"), ("values", "data", "y", "ratings"))


def read_market(name: str, source: Path | bytes) -> tuple[ObservedMatrix, str]:
    content = opened_if_compressed(source, name)
    text = content if isinstance(content, bytes) else content.read_bytes()
    text = text.lstrip()
    if not text.lower().startswith(b"%%matrixmarket"):
        raise ValueError(f"{name}, line 1: a MatrixMarket file begins with %%MatrixMarket; got {_shown(text)}")
    try:
        found = market.read(text)
    except ValueError as error:
        raise ValueError(f"{name} is no MatrixMarket file that can be read: {error}") from None
    return _of_entries(name, found.rows, found.cols, found.values, found.shape), f"MatrixMarket, {found.form}"


def _of_entries(
    name: str, rows: NDArray[Any], cols: NDArray[Any], values: NDArray[Any], shape: tuple[int, int]
) -> ObservedMatrix:
    """Entries at positions that have been checked."""
    most = max(SIDE, EMPTY * values.size)
    if max(shape) > most:
        raise ValueError(
            f"{name} claims to be {shape[0]:,} × {shape[1]:,} with {values.size:,} entries, so nearly all rows or "
            "columns are empty; is it damaged? If not, leave them out"
        )
    try:
        return ObservedMatrix.from_triplets(rows, cols, values, shape)
    except (ValueError, TypeError) as error:
        raise ValueError(_prefixed(name, error)) from None


def read_npz(name: str, source: Path | bytes) -> tuple[ObservedMatrix, str]:
    """A sparse matrix of SciPy, one array, or three arrays: rows, cols and values."""
    stream: Any = io.BytesIO(source) if isinstance(source, bytes) else source
    try:
        _check_claims(stream, name)
        with np.load(stream, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
    except MemoryError:
        raise
    except Exception as error:  # zipfile, zlib, struct, tokenize and NumPy have a dozen ways to say it
        if "pickle" in str(error):
            raise ValueError(f"{name} holds Python objects, which are not loaded; save arrays of numbers") from None
        if isinstance(error, ValueError) and str(error).startswith(name):
            raise
        said = str(error).split("\n", 1)[0][:200]
        raise ValueError(f"{name} is damaged or no npz file: {type(error).__name__}, {said}") from None
    if "format" in arrays and "shape" in arrays:
        return _scipy_sparse(name, arrays), "sparse matrix of SciPy"
    names = [next((n for n in known if n in arrays), None) for known in TRIPLETS]
    if all(names):
        return _triplets(name, *(arrays[str(n)] for n in names)), f"arrays {', '.join(map(str, names))}"
    return _only_matrix(name, arrays, "npz")


def _check_claims(stream: Any, name: str) -> None:
    """Every array must be as long as its header says, and no longer than what is packed can be."""
    with zipfile.ZipFile(stream) as archive:
        for info in archive.infolist():
            if not info.filename.endswith(".npy"):
                raise ValueError(f"{name} has {info.filename!r} in it, which is no array of NumPy")
            with archive.open(info) as member:
                version = np.lib.format.read_magic(member)
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                shape, _, dtype = read(member)
            size = int(np.prod(shape, dtype=object)) * max(dtype.itemsize, 1)
            if min(shape, default=0) < 0 or size > min(info.file_size, DENSEST * info.compress_size + DENSEST):
                raise ValueError(f"{name}: array {info.filename!r} claims shape {shape}, more than the file holds")
    if hasattr(stream, "seek"):
        stream.seek(0)


def _scipy_sparse(name: str, arrays: dict[str, NDArray[Any]]) -> ObservedMatrix:
    """What scipy.sparse.save_npz has written, with all positions checked before they are used."""
    try:
        rows, cols, values, shape = stored_sparse.entries(arrays)
    except (KeyError, TypeError, ValueError) as error:
        said = str(error).split("\n", 1)[0][:200]
        raise ValueError(f"{name} is damaged or was not written by scipy.sparse.save_npz: {said}") from None
    return _of_entries(name, rows, cols, values, shape)


def read_mat(name: str, source: Path | bytes, variable: str | None) -> tuple[ObservedMatrix, str]:
    content = source if isinstance(source, bytes) else source.read_bytes()
    try:
        found = matlab.variables(content)
    except matlab.TooNewError:
        raise ValueError(f"{name} is of MATLAB's version 7.3; save it with -v7") from None
    except ValueError as error:
        raise ValueError(f"{name} is damaged or no MATLAB file: {error}") from None
    variables = {k: v for k, v in found.items() if not k.startswith("__")}
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
    if sparse.issparse(matrix):
        coo: Any = matrix
        data = _of_entries(name, coo.row, coo.col, coo.data, coo.shape)
    else:
        try:
            data = ObservedMatrix.from_any(matrix)
        except (ValueError, TypeError) as error:
            raise ValueError(_prefixed(name, error)) from None
    return data, f"{kind}, variable {key}"


def _is_matrix(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.ndim == 2 and value.dtype.kind in "fiub" and min(value.shape) > 1


def _triplets(name: str, rows: NDArray[Any], cols: NDArray[Any], values: NDArray[Any]) -> ObservedMatrix:
    flat = rows.shape == cols.shape == values.shape and rows.ndim == 1  # else `ObservedMatrix` says what is wrong
    whole = flat and len(rows) > 0 and all(a.dtype.kind in "iu" for a in (rows, cols))
    if whole and min(rows.min(), cols.min()) >= 0:
        return _of_entries(name, rows, cols, values, (int(rows.max()) + 1, int(cols.max()) + 1))
    try:
        make = ObservedMatrix.from_triplets if whole else ObservedMatrix.from_ratings
        return make(rows, cols, values)
    except (ValueError, TypeError) as error:
        raise ValueError(_prefixed(name, error)) from None


def _prefixed(name: str, error: Exception) -> str:
    return str(error) if str(error).startswith(name) else f"{name}: {error}"


def _shown(text: bytes) -> str:
    return repr(text[:30].decode("latin-1"))
