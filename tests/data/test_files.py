"""Files of all formats, good and bad. A bad one gives one line: the file, where it is wrong, and what to do."""

import gzip
import io
import sys

import numpy as np
import polars as pl
import pytest
import scipy.io
from scipy import sparse

from rslm.cli import main
from rslm.data.files import read_source

RATINGS = [("anna", "Alien", 4.5), ("anna", "Brazil", 2.0), ("bob", "Alien", 5.0), ("bob", "Casablanca", 1.5)]


def table(delimiter=",", header="user,item,rating", end="\n"):
    lines = [] if header is None else [header.replace(",", delimiter)]
    return end.join([*lines, *(delimiter.join(map(str, r)) for r in RATINGS)]) + end


def check_ratings(data):
    assert data.row_ids.tolist() == ["anna", "bob"]
    assert data.col_ids.tolist() == ["Alien", "Brazil", "Casablanca"]
    np.testing.assert_array_equal(data.to_dense(), [[4.5, 2.0, np.nan], [5.0, np.nan, 1.5]])


GOOD = {
    "comma": table().encode(),
    "tab": table("\t").encode(),
    "semicolon": table(";").encode(),
    "bar": table("|").encode(),
    "double colon": table("::").encode(),
    "no header": table(header=None).encode(),
    "Windows line ends": table(end="\r\n").encode(),
    "old line ends": table(end="\r").encode(),
    "byte order mark": b"\xef\xbb\xbf" + table().encode(),
    "no last line end": table().rstrip().encode(),
    "gzip": gzip.compress(table().encode()),
    "quotes": b'user,item,rating\n"anna","Alien",4.5\n"anna","Brazil",2.0\nbob,Alien,5\nbob,"Casablanca",1.5\n',
    "other names": b"uid,movie_id,stars,when\n"
    + b"".join(f"{u},{i},{r},99999{k}\n".encode() for k, (u, i, r) in enumerate(RATINGS)),
    "value first": b"rating,user,item\n" + b"".join(f"{r},{u},{i}\n".encode() for u, i, r in RATINGS),
    "empty lines at the end": table().encode() + b"\n\n",
}


@pytest.mark.parametrize("kind", GOOD)
def test_text_is_understood(kind, tmp_path):
    path = tmp_path / "ratings.txt"
    path.write_bytes(GOOD[kind])
    source = read_source(path)
    check_ratings(source.data)
    assert "one entry a line" in source.how


def test_what_was_guessed_is_said(tmp_path):
    path = tmp_path / "ratings.csv"
    path.write_text(table())
    assert read_source(path).how == "text separated by comma, with a header, one entry a line: user × item → rating"


def test_ids_with_blanks_and_signs_of_all_kinds(tmp_path):
    path = tmp_path / "ratings.csv"
    path.write_text("user,item,rating\nJörg M.,🎬 one,1\nJörg M.,two  ,2\n'x',🎬 one,3\n", encoding="utf-8")
    data = read_source(path).data
    assert data.row_ids.tolist() == ["'x'", "Jörg M."]
    assert "🎬 one" in data.col_ids.tolist()
    path.write_bytes("user,item,rating\nJörg,Caché,1\nJörg,Amélie,2\nEva,Caché,3\n".encode("latin-1"))
    source = read_source(path)
    assert "Jörg" in source.data.row_ids.tolist()
    assert "Latin-1" in source.how


def test_numbers_as_ids_stay_numbers(tmp_path):
    path = tmp_path / "ratings.dat"
    path.write_text("1::1193::5::978300760\n1::661::3::978302109\n2::1193::4::978301968\n7::661::2::978300275\n")
    data = read_source(path).data
    assert data.row_ids.tolist() == [1, 2, 7]
    assert data.col_ids.tolist() == [661, 1193]


def test_ids_that_are_numbers_at_first_and_words_later(tmp_path):
    path = tmp_path / "ratings.csv"
    lines = [f"{k},{k % 7},{k % 5}" for k in range(12_000)] + ["x7,3,1"]
    path.write_text("user,item,rating\n" + "\n".join(lines) + "\n")
    data = read_source(path).data
    assert data.shape[0] == 12_001
    assert "x7" in data.row_ids.tolist()


def test_a_matrix_with_empty_cells(tmp_path):
    path = tmp_path / "panel.csv"
    path.write_text("day,north,south,east\nMon,1.5,,3\nTue,,2.5,NA\nWed,4,5,6\n")
    source = read_source(path)
    assert source.data.row_ids.tolist() == ["Mon", "Tue", "Wed"]
    assert source.data.col_ids.tolist() == ["north", "south", "east"]
    np.testing.assert_array_equal(source.data.to_dense(), [[1.5, np.nan, 3], [np.nan, 2.5, np.nan], [4, 5, 6]])
    assert "first column names the rows" in source.how
    path.write_text("1,2,3,4,5\n6,,8,9,10\n")
    data = read_source(path).data
    assert data.shape == (2, 5)
    assert data.row_ids is None
    assert data.col_ids is None


def test_roles_and_layout_can_be_told(tmp_path):
    path = tmp_path / "odd.csv"
    path.write_text("a,b,c,d,e\n1,x,9,0.5,7\n2,x,8,1.5,7\n1,y,7,2.5,7\n")
    data = read_source(path, rows="a", cols="b", values="d").data
    np.testing.assert_array_equal(data.to_dense(), [[0.5, 2.5], [1.5, np.nan]])
    same = read_source(path, rows=1, cols=2, values=4).data
    np.testing.assert_array_equal(same.to_dense(), data.to_dense())
    path.write_text("1,2,3\n1,5,6\n2,5,7\n")
    assert read_source(path).data.shape == (2, 2)
    assert read_source(path, layout="dense").data.shape == (3, 3)
    path.write_text("1;2;3\n1;5;6\n2;5;7\n")
    assert read_source(path, delimiter=";", header=True, layout="dense").data.shape == (2, 3)


def test_repeated_entries(tmp_path):
    path = tmp_path / "twice.csv"
    path.write_text("user,item,rating\na,x,1\na,x,3\nb,y,2\n")
    with pytest.raises(ValueError, match=r"twice\.csv: 1 of 3 entries repeat"):
        read_source(path)
    assert read_source(path, duplicates="mean").data.to_dense()[0, 0] == 2.0


def test_standard_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(table().encode())))
    check_ratings(read_source("-").data)


def test_parquet(tmp_path):
    path = tmp_path / "ratings.parquet"
    pl.DataFrame(RATINGS, schema=["user", "item", "rating"], orient="row").write_parquet(path)
    check_ratings(read_source(path).data)


def test_binary_formats(tmp_path):
    X = sparse.coo_array(([1.0, 0.0, 3.0], ([0, 1, 1], [1, 0, 2])), shape=(2, 3))
    dense = np.array([[np.nan, 1.0, np.nan], [0.0, np.nan, 3.0]])
    sparse.save_npz(tmp_path / "a.npz", sparse.csr_array(X))
    np.savez(tmp_path / "b.npz", X=dense)
    np.savez(tmp_path / "c.npz", rows=[0, 1, 1], cols=[1, 0, 2], values=[1.0, 0.0, 3.0])
    scipy.io.mmwrite(tmp_path / "d.mtx", X)
    (tmp_path / "e.mtx.gz").write_bytes(gzip.compress((tmp_path / "d.mtx").read_bytes()))
    scipy.io.savemat(tmp_path / "f.mat", {"X": dense, "name": "x"})
    scipy.io.savemat(tmp_path / "g.mat", {"X": dense, "Y": dense})
    for name in ("a.npz", "b.npz", "c.npz", "d.mtx", "e.mtx.gz", "f.mat"):
        np.testing.assert_array_equal(read_source(tmp_path / name).data.to_dense(), dense)
    np.testing.assert_array_equal(read_source(tmp_path / "g.mat", variable="Y").data.to_dense(), dense)
    with pytest.raises(ValueError, match="one matrix of numbers is needed"):
        read_source(tmp_path / "g.mat")


def npy(claims):
    """An npz file with an array whose header claims another shape."""
    import zipfile

    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": claims})
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("X.npy", header.getvalue() + b"\0" * 80)
    return out.getvalue()


def saved(write):
    out = io.BytesIO()
    write(out)
    return out.getvalue()


PARQUET = saved(lambda f: pl.DataFrame({"user": [1, 1, 2], "item": [1, 2, 1], "rating": [1.0, 2, 3]}).write_parquet(f))
NPZ = saved(lambda f: np.savez(f, X=np.ones((30, 30))))
MARKET = b"%%MatrixMarket matrix coordinate real general\n"
BAD = {
    "nothing": ("a.csv", b"", "is empty"),
    "blank lines": ("a.csv", b"\n\n  \n", "is empty"),
    "a header alone": ("a.csv", b"user,item,rating\n", "nothing below"),
    "one line of numbers": ("a.csv", b"3\n", "no delimiter found"),
    "one column": ("a.csv", b"a\nb\nc\n", "no delimiter found"),
    "prose": ("a.txt", b"Lorem\nipsum\n", "no delimiter found"),
    "wrong delimiter given": ("a.csv", table(";").encode(), "one column only.*delimiter", {"delimiter": ","}),
    "a cell too many": ("a.csv", b"user,item,rating\na,x,1\nb,x,2,9\nb,y,2\n", "line 3: 4 cells"),
    "a cell too few": ("a.csv", b"user,item,rating\na,x,1\nb,x\nb,y,2\n", "line 3: 2 cells"),
    "a word for a value": ("a.csv", b"user,item,rating\na,x,1\nb,x,good\nb,y,2\n", "line 3: 'good' is no number"),
    "a word late": (
        "a.csv",
        b"user,item,rating\n" + b"a,x,1\n" * 1 + b"".join(b"b,%d,2\n" % k for k in range(11_000)) + b"c,x,?!\n",
        "line 11003: '[?]!' is no number",
    ),
    "no value": ("a.csv", b"user,item,rating\na,x,1\nb,x,\nb,y,2\n", "line 3: '' is no number"),
    "no user": ("a.csv", b"user,item,rating\na,x,1\n,x,2\nb,y,2\n", "'user' are empty"),
    "an open quote": ("a.csv", b'user,item,rating\na,"x,1\nb,x,2\nb,y,2\n', "a.csv"),
    "NUL bytes": ("a.csv", b"user,item,rating\na,x,1\nb,\0,2\n", "line 3: there is a NUL byte"),
    "UTF-16": ("a.csv", "user,item,rating\na,x,1\n".encode("utf-16"), "UTF-16"),
    "infinite": ("a.csv", b"user,item,rating\na,x,1\nb,x,inf\nb,y,2\n", "NaN or infinite"),
    "far too large": ("a.csv", b"user,item,rating\na,x,1\nb,x,1e999\nb,y,2\n", "infinite"),
    "words in a matrix": ("a.csv", b"a,b,c,d,e\n1,2,3,4,x\n5,6,7,8,y\n", "column 'e' holds 'x'"),
    "truncated gzip": ("a.csv.gz", gzip.compress(table().encode())[:-9], "compressed content ends too early"),
    "broken gzip": ("a.csv.gz", b"\x1f\x8b\x08\x00nonsense", "compressed content"),
    "truncated Parquet": ("a.parquet", PARQUET[: len(PARQUET) // 2], "no Parquet file"),
    "Parquet by name only": ("a.parquet", b"user,item,rating\n", "no Parquet file"),
    "truncated npz": ("a.npz", NPZ[: len(NPZ) // 2], "damaged or no npz"),
    "npz of objects": ("a.npz", saved(lambda f: np.savez(f, X=np.array([{}], dtype=object))), "Python objects"),
    "npz that claims 10 GB": ("a.npz", npy((40_000, 40_000)), "claims shape"),
    "npz of a line": ("a.npz", saved(lambda f: np.savez(f, X=np.ones(4))), "one matrix of numbers"),
    "market without its title": ("a.mtx", b"2 2 1\n1 1 3.0\n", "line 1: a MatrixMarket file begins"),
    "market that claims 10 GB": ("a.mtx", MARKET + b"100000 100000 1000000000\n1 1 3.0\n", "more than the file"),
    "market that ends early": ("a.mtx", MARKET + b"2 2 3\n1 1 3.0\n", "no MatrixMarket file that can be read"),
    "market beyond its size": ("a.mtx", MARKET + b"2 2 1\n3 1 3.0\n", "no MatrixMarket file that can be read"),
    "market with words": ("a.mtx", MARKET + b"2 2 1\n1 1 three\n", "no MatrixMarket file that can be read"),
    "no MATLAB file": ("a.mat", b"MATLAB 5.0 nonsense" * 20, "no MATLAB file"),
    "truncated MATLAB file": (
        "a.mat",
        saved(lambda f: scipy.io.savemat(f, {"X": np.ones((30, 30))}))[:400],
        "MATLAB file|memory|one matrix",
    ),
    "no such column": ("a.csv", table().encode(), "no column 'stars'", {"values": "stars"}),
    "one column twice": ("a.csv", table().encode(), "three different columns", {"rows": "item", "cols": "item"}),
    "unknown layout": ("a.csv", table().encode(), "layout must be", {"layout": "long"}),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_file_is_told_in_one_line(kind, tmp_path):
    name, content, message, *options = BAD[kind]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_source(path, **(options[0] if options else {}))
    assert "\n" not in str(caught.value)
    assert name in str(caught.value) or kind == "unknown layout"


@pytest.mark.parametrize("kind", BAD)
def test_a_command_given_a_bad_file_writes_nothing(kind, tmp_path, monkeypatch):
    name, content, message, *options = BAD[kind]
    (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    more = [text for option, value in (options[0] if options else {}).items() for text in (f"--{option}", value)]
    wishes = ["--model", "m.rslm", "--fill", "filled.csv", "--report", "report.html"]
    monkeypatch.setattr(sys, "argv", ["rslm", "complete", name, *wishes, *more])
    with pytest.raises(SystemExit, match=message) as ended:
        main()
    said = str(ended.value.code)  # a text: Python prints it and exits with code 1
    assert said.startswith("Error: ")
    assert "\n" not in said
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_source(tmp_path / "none.csv")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        read_source(tmp_path)
