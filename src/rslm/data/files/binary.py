"""Matrices in binary files and MatrixMarket. The sizes in a header are checked before memory is allocated."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rslm.data.files import market, matlab, stored_sparse
from rslm.data.files.tools import opened_if_compressed
from rslm.data.observed import ObservedMatrix

DENSEST = 1100  # slightly more than the largest compression ratio of a zip file
SIDE, EMPTY = 10_000_000, 1000  # rows or columns: this many are always accepted; above it, this many per entry
NPY = b"\x93NUMPY"  # first bytes of an npy file
MOST_NAMED = 10  # variables listed in a message
HOLDS_OBJECTS = "{} holds Python objects, which are not loaded; save arrays of numbers"
TRIPLETS = (("rows", "row", "i"), ("cols", "col", "j"), ("values", "data", "y", "ratings"))


def read_market(name: str, source: Path | bytes) -> tuple[ObservedMatrix, str]:
    content = opened_if_compressed(source, name)
    whole = content if isinstance(content, bytes) else content.read_bytes()
    text = whole.lstrip()
    line = 1 + whole[: len(whole) - len(text)].count(b"\n")
    if not text.lower().startswith(b"%%matrixmarket"):
        raise ValueError(f"{name}, line {line}: a MatrixMarket file begins with %%MatrixMarket; got {_shown(text)}")
    try:
        found = market.read(text, line)
    except ValueError as error:
        raise ValueError(f"{name} is not a valid MatrixMarket file: {error}") from None
    return _of_entries(name, found.rows, found.cols, found.values, found.shape), f"MatrixMarket, {found.form}"


def _of_entries(
    name: str,
    rows: NDArray[Any],
    cols: NDArray[Any],
    values: NDArray[Any],
    shape: tuple[int, int],
    weights: NDArray[Any] | None = None,
) -> ObservedMatrix:
    """A matrix of entries whose positions have been checked."""
    most = max(SIDE, EMPTY * values.size)
    if max(shape) > most:
        raise ValueError(
            f"{name} claims to be {shape[0]:,} × {shape[1]:,} with {values.size:,} entries, so nearly all rows or "
            "columns are empty; is it damaged? If not, leave them out"
        )
    try:
        return ObservedMatrix.from_triplets(rows, cols, values, shape, weights=weights)
    except (ValueError, TypeError) as error:
        raise ValueError(_prefixed(name, error)) from None


def read_npy(name: str, source: Path | bytes) -> tuple[ObservedMatrix, str]:
    """One array: a matrix in which NaN is missing."""
    stream: IO[bytes] = io.BytesIO(source) if isinstance(source, bytes) else source.open("rb")
    with stream as file:
        try:
            size = file.seek(0, io.SEEK_END)
            file.seek(0)
            shape, dtype = _claims(file)
            if dtype.hasobject:
                raise ValueError(HOLDS_OBJECTS.format(name))
            if min(shape, default=0) < 0 or _bytes_of(shape, dtype) > size:
                raise ValueError(f"{name} claims shape {shape}, more than the file holds")
            file.seek(0)
            array = np.load(file, allow_pickle=False)
        except MemoryError:
            raise
        except Exception as error:  # NumPy, tokenize and struct raise several types of exceptions
            if isinstance(error, ValueError) and str(error).startswith(name):
                raise
            raise ValueError(f"{name} is damaged or not an npy file: {_first_line(error)}") from None
    if not _is_matrix(array):
        raise ValueError(
            f"{name} holds an array of shape {array.shape} and type {array.dtype}; a matrix of numbers with several "
            "rows and columns is needed"
        )
    return _of_array(name, array), "NumPy, a matrix"


def read_npz(
    name: str, source: Path | bytes, variable: str | None = None, weights: str | None = None
) -> tuple[ObservedMatrix, str]:
    """A sparse matrix of SciPy, one array, or three arrays: rows, cols and values, and perhaps `weights`."""
    stream: Any = io.BytesIO(source) if isinstance(source, bytes) else source
    try:
        _check_claims(stream, name)
        with np.load(stream, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
    except MemoryError:
        raise
    except Exception as error:  # zipfile, zlib, struct, tokenize and NumPy raise many types of exceptions
        if "pickle" in str(error):
            raise ValueError(HOLDS_OBJECTS.format(name)) from None
        if isinstance(error, ValueError) and str(error).startswith(name):
            raise
        raise ValueError(f"{name} is damaged or not an npz file: {_first_line(error)}") from None
    names = [next((n for n in known if n in arrays), None) for known in TRIPLETS]
    if weights is not None:
        if variable is not None or not all(names):
            raise ValueError(f"{name}: weights are read only with the arrays rows, cols and values; leave them out")
        names.append(next(iter(_chosen(name, arrays, weights))))
    elif variable is not None:
        return _only_matrix(name, _chosen(name, arrays, variable), "npz")
    elif "format" in arrays and "shape" in arrays:
        return _scipy_sparse(name, arrays), "SciPy sparse matrix"
    if all(names):
        return _triplets(name, *(arrays[str(n)] for n in names)), f"arrays {', '.join(map(str, names))}"
    return _only_matrix(name, arrays, "npz")


def _check_claims(stream: Any, name: str) -> None:
    """Every array must be as long as its header claims, and no longer than its compressed bytes allow."""
    with zipfile.ZipFile(stream) as archive:
        for info in archive.infolist():
            if not info.filename.endswith(".npy"):
                raise ValueError(f"{name} has {info.filename!r} in it, which is not a NumPy array")
            with archive.open(info) as member:
                shape, dtype = _claims(member)
            size = _bytes_of(shape, dtype)
            if min(shape, default=0) < 0 or size > min(info.file_size, DENSEST * info.compress_size + DENSEST):
                raise ValueError(f"{name}: array {info.filename!r} claims shape {shape}, more than the file holds")
    if hasattr(stream, "seek"):
        stream.seek(0)


def _claims(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type according to the header of an array."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    return shape, dtype


def _bytes_of(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    return int(np.prod(shape, dtype=object)) * max(dtype.itemsize, 1)


def _scipy_sparse(name: str, arrays: dict[str, NDArray[Any]]) -> ObservedMatrix:
    """A matrix that scipy.sparse.save_npz has written; all positions are checked before they are used."""
    try:
        rows, cols, values, shape = stored_sparse.entries(arrays)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{name} is damaged or was not written by scipy.sparse.save_npz: {_first_line(error)}"
        ) from None
    return _of_entries(name, rows, cols, values, shape)


def read_mat(name: str, source: Path | bytes, variable: str | None) -> tuple[ObservedMatrix, str]:
    content = source if isinstance(source, bytes) else source.read_bytes()
    try:
        found = matlab.variables(content)
    except matlab.TooNewError:
        raise ValueError(f"{name} is a MATLAB file of version 7.3, which is not supported; save it with -v7") from None
    except ValueError as error:
        raise ValueError(f"{name} is damaged or not a MATLAB file: {error}") from None
    variables = {k: v for k, v in found.items() if not k.startswith("__")}
    return _only_matrix(name, variables if variable is None else _chosen(name, variables, variable), "MATLAB")


def _chosen(name: str, arrays: dict[str, Any], variable: str) -> dict[str, Any]:
    if variable not in arrays:
        raise ValueError(f"{name} has no variable {variable!r}; there are {', '.join(arrays) or 'none'}")
    return {variable: arrays[variable]}


def _only_matrix(name: str, arrays: dict[str, Any], kind: str) -> tuple[ObservedMatrix, str]:
    matrices = {k: v for k, v in arrays.items() if bool(sparse.issparse(v)) or _is_matrix(v)}
    if len(matrices) > 1:
        listed = " and ".join(_sized(key, matrix) for key, matrix in list(matrices.items())[:MOST_NAMED])
        more = f" and {len(matrices) - MOST_NAMED} more" if len(matrices) > MOST_NAMED else ""
        raise ValueError(
            f"{name} holds {len(matrices)} matrices, {listed}{more}; name one: --variable {next(iter(matrices))}, or "
            f"variable={next(iter(matrices))!r} in Python"
        )
    if not matrices:
        found = ", ".join(_sized(key, value) for key, value in list(arrays.items())[:MOST_NAMED]) or "none"
        raise ValueError(f"{name}: one matrix of numbers is needed, or rows, cols and values; the arrays are {found}")
    ((key, matrix),) = matrices.items()
    if sparse.issparse(matrix):
        coo: Any = matrix
        data = _of_entries(name, coo.row, coo.col, coo.data, coo.shape)
    else:
        data = _of_array(name, matrix)
    return data, f"{kind}, variable {key}"


def _of_array(name: str, matrix: NDArray[Any]) -> ObservedMatrix:
    try:
        return ObservedMatrix.from_any(matrix)
    except (ValueError, TypeError) as error:
        raise ValueError(_prefixed(name, error)) from None


def _sized(key: str, value: Any) -> str:
    """A name and a size for a message; only the name if it is not an array."""
    size = " × ".join(map(str, np.shape(value)))
    return f"{key} ({size})" if size else key


def _is_matrix(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.ndim == 2 and value.dtype.kind in "fiub" and min(value.shape) > 1


def _triplets(
    name: str, rows: NDArray[Any], cols: NDArray[Any], values: NDArray[Any], weights: NDArray[Any] | None = None
) -> ObservedMatrix:
    flat = rows.shape == cols.shape == values.shape and rows.ndim == 1  # if not, `ObservedMatrix` raises the error
    whole = flat and len(rows) > 0 and all(a.dtype.kind in "iu" for a in (rows, cols))
    if whole and min(rows.min(), cols.min()) >= 0:
        return _of_entries(name, rows, cols, values, (int(rows.max()) + 1, int(cols.max()) + 1), weights)
    try:
        make = ObservedMatrix.from_triplets if whole else ObservedMatrix.from_ratings
        return make(rows, cols, values, weights=weights)
    except (ValueError, TypeError) as error:
        raise ValueError(_prefixed(name, error)) from None


def _prefixed(name: str, error: Exception) -> str:
    return str(error) if str(error).startswith(name) else f"{name}: {error}"


def _first_line(error: Exception) -> str:
    """The first line of a message, with some words around it if it is only a name, as that of a KeyError."""
    said = str(error).split("\n", 1)[0][:200].rstrip(".")
    return said if " " in said else f"a part is missing or wrong{f' ({said})' if said else ''}"


def _shown(text: bytes) -> str:
    return repr(text[:30].decode("latin-1"))
