"""Our readers of MATLAB and MatrixMarket files read what SciPy writes, and refuse what makes SciPy's readers crash."""

import io
import struct
from contextlib import suppress

import numpy as np
import pytest
import scipy.io
from scipy import sparse

from rslm.data.files import market, matlab, read_source

RNG = np.random.default_rng(0)
DENSE = RNG.standard_normal((5, 4))
SPARSE = sparse.random_array((5, 4), density=0.5, random_state=np.random.default_rng(1))


def saved(write, *given, **options):
    out = io.BytesIO()
    write(out, *given, **options)
    return out.getvalue()


VALUES = {
    "double": DENSE,
    "single": DENSE.astype(np.float32),
    **{
        f"{kind}": (DENSE * 9).astype(kind) for kind in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")
    },
    "whole doubles": np.arange(20.0).reshape(5, 4),
    "logical": DENSE > 0,
    "complex": DENSE + 1j,
    "three dimensions": RNG.standard_normal((2, 3, 4)),
    "empty": np.zeros((0, 3)),
    "row": np.arange(5.0)[None, :],
    "sparse": sparse.csc_array(SPARSE),
    "empty sparse": sparse.csc_array((4, 3)),
    "complex sparse": sparse.csc_array(SPARSE * 1j),
}


def same(found, expected):
    if sparse.issparse(expected):
        found, expected = found.toarray(), expected.toarray()
    np.testing.assert_array_equal(found, expected)
    assert found.dtype.kind == expected.dtype.kind


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("kind", VALUES)
def test_matlab(kind, compressed):
    more = {"X": VALUES[kind], "text": "abc", "record": {"a": 1.0, "b": "c"}, "a_rather_long_name": DENSE}
    content = saved(scipy.io.savemat, more, do_compression=compressed)
    found = matlab.variables(content)
    same(found["X"], VALUES[kind])
    same(found["a_rather_long_name"], DENSE)
    assert found["text"] is None
    assert found["record"] is None


@pytest.mark.parametrize("kind", ["double", "single", "int16", "sparse"])
def test_matlab_version_4(kind):
    found = matlab.variables(saved(scipy.io.savemat, {"X": VALUES[kind], "text": "abc"}, format="4"))
    expected = VALUES[kind]
    same(found["X"], expected if sparse.issparse(expected) else expected.astype(np.float64))
    assert found["text"] is None


def test_matlab_cells():
    cells = np.empty((1, 3), dtype=object)
    cells[0] = [DENSE, np.zeros((0, 0)), np.array([["a"]])]
    found = matlab.variables(saved(scipy.io.savemat, {"X": cells}))["X"]
    assert found.shape == (1, 3)
    np.testing.assert_array_equal(found[0, 0], DENSE)
    assert found[0, 1].size == 0


def test_matlab_of_the_other_order_of_bytes():
    """As old machines wrote it: one variable by hand."""

    def element(kind, data):
        return struct.pack(">II", kind, len(data)) + data + bytes(-len(data) % 8)

    parts = element(6, struct.pack(">II", 6, 0)) + element(5, struct.pack(">ii", 2, 2)) + element(1, b"X")
    parts += element(9, np.array([1, 2, 3, 4], dtype=">f8").tobytes())
    content = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack(">H", 0x0100) + b"MI" + element(14, parts)
    np.testing.assert_array_equal(matlab.variables(content)["X"], [[1, 3], [2, 4]])


def test_any_damaged_byte_of_a_matlab_file_is_read_or_refused():
    """SciPy's reader ends the interpreter at some of them."""
    for compressed in (False, True):
        content = saved(scipy.io.savemat, {"X": sparse.csc_array(SPARSE), "Y": DENSE}, do_compression=compressed)
        for at in range(100, len(content)):
            for byte in (0, 0x7F, 0xFF):
                changed = bytearray(content)
                changed[at] = byte
                with suppress(ValueError):
                    matlab.variables(bytes(changed))


@pytest.mark.parametrize("content", [b"", b"MATLAB", bytes(20), bytes(128), b"MATLAB".ljust(126) + b"IM" + bytes(7)])
def test_what_is_no_matlab_file(content):
    with pytest.raises(ValueError, match=r"\w+ \w+"):
        matlab.variables(content)


MARKETS = {
    "coordinate": (SPARSE, {}),
    "array": (DENSE, {}),
    "integer": (sparse.coo_array((DENSE * 9).astype(int)), {}),
    "symmetric": (sparse.coo_array(DENSE[:4] + DENSE[:4].T), {"symmetry": "symmetric"}),
    "skew": (sparse.coo_array(DENSE[:4] - DENSE[:4].T), {"symmetry": "skew-symmetric"}),
    "symmetric array": (DENSE[:4] + DENSE[:4].T, {"symmetry": "symmetric"}),
    "with a comment": (SPARSE, {"comment": "one\ntwo"}),
}


@pytest.mark.filterwarnings(
    "ignore:The default value for `spmatrix`:DeprecationWarning"
)  # old SciPy has no such option
@pytest.mark.parametrize("block", [16, 1 << 20])
@pytest.mark.parametrize("kind", MARKETS)
def test_market(kind, block, monkeypatch):
    monkeypatch.setattr(market, "BLOCK", block)
    matrix, options = MARKETS[kind]
    content = saved(scipy.io.mmwrite, matrix, **options)
    expected = scipy.io.mmread(io.BytesIO(content))
    found = market.read(content)
    made = sparse.coo_array((found.values, (found.rows, found.cols)), shape=found.shape).toarray()
    np.testing.assert_allclose(made, expected.toarray() if sparse.issparse(expected) else expected, rtol=1e-15)


TITLE = b"%%MatrixMarket matrix coordinate real general\n"
WRONG = {
    "NUL": (TITLE + b"2 2 2\n1 1 3\0\n2 2 1\n", "line 3: .* is not part of a number"),
    "too few numbers in a line": (TITLE + b"2 2 2\n1 1\n2 2 1 1\n", "line 3: 2 numbers, where 3 are needed"),
    "too many entries": (TITLE + b"2 2 1\n1 1 3\n2 2 1\n", "line 2 claims 1 entry, but there are 2"),
    "a word": (TITLE + b"2 2 2\n1 1 3\n\n2 2 1e\n", "line 5: '1e' is not a number"),
    "half a position": (TITLE + b"2 2 1\n1.5 1 3\n", "line 3: the row is 1.5, where a whole number from 1 to 2"),
    "a position beyond all": (TITLE + b"2 2 1\n1 1e30 3\n", "line 3: the column is 1e\\+30"),
    "a negative size": (TITLE + b"2 -2 1\n1 1 3\n", "line 2: the size"),
    "a size that is too large": (TITLE + b"2000000000 2 1\n1 1 3\n", "nearly all rows or columns"),
    "another symmetry": (
        TITLE.replace(b"general", b"lopsided") + b"2 2 1\n1 1 3\n",
        "line 1: 'lopsided' is not one of",
    ),
    "no square": (
        TITLE.replace(b"general", b"symmetric") + b"2 3 1\n1 1 3\n",
        "line 2: a symmetric matrix cannot be 2 × 3",
    ),
    "complex": (TITLE.replace(b"real", b"complex") + b"2 2 1\n1 1 3 1\n", "line 1: complex values"),
    "a pattern": (TITLE.replace(b"real", b"pattern") + b"2 2 1\n1 1\n", "line 1: a pattern has no values"),
    "no size": (TITLE, "line 2: the size"),
    "a position outside, after comments and empty lines": (
        TITLE + b"% by me\n3 2 3\n1 1 3\n\n2 2 4\n\n3 3 5\n",
        "line 8: the column is 3, where a whole number from 1 to 2",
    ),
    "empty lines before the title": (b"\n\n" + TITLE + b"2 2 1\n1 1 x\n", "line 5: 'x' is not part of a number"),
    "one number": (TITLE + b"2 2 1\n       1\n", "line 3: 1 number, where 3 are needed"),
    "two numbers in a line of an array": (
        TITLE.replace(b"coordinate", b"array") + b"2 1\n1 2\n",
        "line 3: 2 numbers, where 1 is needed",
    ),
    "more than it can hold": (TITLE + b"2 2 99\n1 1 3\n", "line 2: it claims 2 × 2 with 99 entries"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_market_is_told_in_one_line(kind, tmp_path):
    content, message = WRONG[kind]
    path = tmp_path / "a.mtx"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_source(path)
    assert "a.mtx" in str(caught.value)
    assert "\n" not in str(caught.value)
