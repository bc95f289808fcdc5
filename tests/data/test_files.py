"""Files of all formats, good and bad. A bad one gives one line: the file, where it is wrong, and what to do."""

import bz2
import gzip
import io
import lzma
import os
import re
import sys
import threading
import zipfile

import numpy as np
import polars as pl
import pytest
import scipy.io
from scipy import sparse

from rslm.cli import main
from rslm.data.files import parquet, read_pairs, read_source, read_table
from rslm.data.files.dialect import _check_alike
from rslm.data.files.text import FIRST
from rslm.data.files.zeros import CHUNK, may_have_leading_zeros
from rslm.data.prepared.write import prepare


def zipped(file, name, content):
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, content)


def saved(write):
    out = io.BytesIO()
    write(out)
    return out.getvalue()


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
    "aligned": b"  user       item  rating\n  anna      Alien     4.5\n  anna     Brazil     2.0\n"
    b"   bob      Alien     5.0  \n   bob  Casablanca  1.5\n",
    "decimal comma": table(";").replace(".", ",").encode(),
    "decimal comma, tab": table("\t").replace(".", ",").encode(),
    "decimal comma, no header": table(";", header=None).replace(".", ",").encode(),
}


@pytest.mark.parametrize("kind", GOOD)
def test_text_is_understood(kind, tmp_path):
    path = tmp_path / "ratings.txt"
    path.write_bytes(GOOD[kind])
    source = read_source(path)
    check_ratings(source.data)
    assert "one entry a line" in source.how


def written(tmp_path, content, name="data.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def entries(*lines):
    return "user,item,rating\n" + "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize("name", ["data[1].csv", "data?.csv", "*.csv", "~"])
def test_a_name_is_a_name_and_no_pattern(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "a,b\n9,9\n9,9\n", "data1.csv")
    written(tmp_path, "a,b\n1,2\n3,4\n", name)
    np.testing.assert_array_equal(read_source(name).data.to_dense(), [[1, 2], [3, 4]])
    np.testing.assert_array_equal(read_table(name).numbers("b")[1], [2, 4])
    pl.DataFrame({"a": [9.0, 9], "b": [9.0, 9]}).write_parquet(tmp_path / "data1.csv")
    with (tmp_path / name).open("wb") as file:
        pl.DataFrame({"a": [1.0, 3], "b": [2.0, 4]}).write_parquet(file)
    np.testing.assert_array_equal(read_source(name).data.to_dense(), [[1, 2], [3, 4]])
    np.testing.assert_array_equal(read_table(name).numbers("b")[1], [2, 4])


SERIES = {
    "decimal comma": ("t;y\n1;5,1\n2;5,2\n3;NA\n", "y", [5.1, 5.2, np.nan], "with a header, decimal comma"),
    "decimal comma, no header": ("1;5,1\n2;5,2\n3;5,3\n", "column_2", [5.1, 5.2, 5.3], "semicolon.*decimal comma"),
    "a comma late": ("t;y\n" + "1;5\n" * 300 + "2;5,5\n", "y", [*[5] * 300, 5.5], "decimal comma"),
    "three decimals": ("t;y\n1;0,123\n2;6,234\n", "y", [0.123, 6.234], "decimal comma"),
    "aligned": ("   t     y\n   1  10.5\n  10   2.5\n", "y", [10.5, 2.5], "separated by space"),
    "one column": ("1.5\n2.5\n3\n", "column_1", [1.5, 2.5, 3], "one column, without a header"),
    "one column with a header": ("y\n1.5\nNA\n3\n\n", "y", [1.5, np.nan, 3], "one column, with a header"),
    "one column, aligned": ("  1.5\n 12.5\n", "column_1", [1.5, 12.5], "one column"),
    "a date last": ("y,day\n1.5,2020-01-01\n2.5,2020-01-02\n", "y", [1.5, 2.5], "comma"),
    "leading zeros": ("t,y\n1,05\n2,10\n", "y", [5, 10], "comma"),
}


@pytest.mark.parametrize("kind", SERIES)
def test_series(kind, tmp_path):
    content, column, values, how = SERIES[kind]
    read = read_table(written(tmp_path, content))
    name, y = read.numbers(None)
    assert name == column
    np.testing.assert_array_equal(y, values)
    assert re.search(how, read.how)


BAD_SERIES = {
    "an empty last column": ("t,y\n1,\n2,\n", None, "data.csv: column 'y' is empty"),
    "an empty column, named": ("y,t\n,1\n,2\n", "y", "data.csv: column 'y' is empty"),
    "percent in the last column": ("t,y\n1,5%\n2,6%\n", None, "line 2: '5%' is not a number"),
    "true in the last column": ("t,y\n1,true\n2,false\n", None, "line 2: 'true' is not a number"),
    "a word among numbers": ("t,y\n1,5\n2,oops\n3,4\n4,5\n", None, "line 3: 'oops' is not a number"),
    "words alone": ("Lorem\nipsum\n", None, "line 1: 'Lorem' is not a number"),
    "one column and an empty line": ("1.5\n\n3\n", None, "line 2 is empty; write NA"),
    "one column of decimal commas": ("y\n1,5\n2,5\n3,5\n", None, "line 1: 1 cell, .* decimals with a point"),
    "zip": (saved(lambda f: zipped(f, "r.csv", b"1")), None, "unpack it first"),
    "half a Parquet file": (b"PAR1" + bytes(40), None, "not a Parquet file"),
}


@pytest.mark.parametrize("kind", BAD_SERIES)
def test_a_bad_series_is_told_in_one_line(kind, tmp_path):
    content, column, message = BAD_SERIES[kind]
    with pytest.raises(ValueError, match=message) as caught:
        read_table(written(tmp_path, content)).numbers(column)
    assert "\n" not in str(caught.value)
    assert "data.csv" in str(caught.value)


IDS = {
    "beyond 64 bits": ("1" + "0" * 25, "7", "1" + "0" * 24 + "1"),
    "leading zeros": ("00003", "2", "3"),
    "a marker of values": ("NA", "bob", "null"),
    "a marker among numbers": ("1", "2", "NA"),
    "line ends in quotes": ("a\nb", "c", "d"),
    "decimals that end with 0": ("1.1", "1.10", "2.0"),
}


@pytest.mark.parametrize("late", [False, True])  # beyond the lines from which types are guessed
@pytest.mark.parametrize("kind", IDS)
def test_ids_are_kept_as_they_are(kind, late, tmp_path):
    ids = IDS[kind]
    before = [f"{1000 + k},x,1" for k in range(60_000)] if late else []
    lines = [*before, *(f'"{name}",{item},1' if "\n" in name else f"{name},{item},1" for name in ids for item in "xy")]
    path = written(tmp_path, entries(*lines))
    found = set(read_source(path).data.row_ids.tolist())
    assert found == {*ids, *(line.split(",")[0] for line in before)}
    assert set(read_pairs(path)[0].tolist()) == found


def test_numbers_beyond_32_bits_stay_numbers(tmp_path):
    lines = [f"{k},x,1" for k in range(60_000)]
    path = written(tmp_path, entries(*lines, f"{2**40},x,1"))
    assert read_source(path).data.row_ids.tolist() == [*range(60_000), 2**40]


def test_a_zero_alone_and_fractions_are_no_leading_zeros(tmp_path):
    path = written(tmp_path, entries("0,10,0.5", "0,20,00.25", "30,10,0"))
    assert read_source(path).data.row_ids.tolist() == [0, 30]
    assert read_source(path).data.to_dense().tolist()[0] == [0.5, 0.25]


@pytest.mark.parametrize("at", range(-3, 4))
def test_leading_zeros_are_found_wherever_a_chunk_ends(at):
    before = b"1" * (CHUNK + at)
    assert may_have_leading_zeros(before + b",07,1\n", ",")
    assert not may_have_leading_zeros(before + b",70,1\n", ",")
    assert may_have_leading_zeros(b"07," + before, ",")


def test_ids_that_are_no_numbers_at_first(tmp_path):
    """The largest number among the first ids is then none."""
    path = written(tmp_path, entries(" 7,x,1", " 7,y,2", " 8,x,3"))
    assert len(read_source(path).data.row_ids) == 2


def test_rows_of_a_matrix_may_have_codes(tmp_path):
    data = read_source(written(tmp_path, "007,1.5,2\n008,2.5,3\n")).data
    assert data.row_ids.tolist() == ["007", "008"]
    np.testing.assert_array_equal(data.to_dense(), [[1.5, 2], [2.5, 3]])
    data = read_source(written(tmp_path, "01,02\n03,14\n")).data  # all are written so: numbers of one width
    assert data.row_ids is None
    np.testing.assert_array_equal(data.to_dense(), [[1, 2], [3, 14]])
    data = read_source(written(tmp_path, "id,a,b\nNA,1,2\nx,3,NA\n")).data
    assert data.row_ids.tolist() == ["NA", "x"]
    data = read_source(written(tmp_path, "id,a,b\n,1,2\nx,3,4\n")).data
    assert data.row_ids.tolist() == ["", "x"]
    data = read_source(written(tmp_path, f"{10**25 + 1},1.5\n{10**25 + 2},2.5\n")).data
    assert data.row_ids.tolist() == [str(10**25 + 1), str(10**25 + 2)]


def test_a_cell_in_quotes_where_the_beginning_ends(tmp_path):
    rows = [f"a{k},x,1" for k in range(FIRST // 12)]
    long = "line\n" * 20_000  # from before the end of the beginning to after it
    assert len(entries(*rows)) < FIRST < len(entries(*rows)) + len(long)
    path = written(tmp_path, entries(*rows, f'"{long}",x,1', "b,y,2"))
    assert long in read_source(path).data.row_ids.tolist()


def test_blanks_within_quotes_are_kept(tmp_path):
    path = written(tmp_path, 'user  item  rating\n "a  b"   x   1\n "a  b"   y   2\n c x 3\n')
    assert read_source(path).data.row_ids.tolist() == ["a  b", "c"]


def test_blanks_in_ids_are_no_delimiter(tmp_path):
    first, second, *_ = read_pairs(written(tmp_path, "user 3,film 4\nuser 5,film 6\n"))
    assert first.tolist() == ["user 3", "user 5"]
    assert second.tolist() == ["film 4", "film 6"]


def test_line_ends_in_quotes_count_for_the_line_of_a_fault(tmp_path):
    path = written(tmp_path, entries('"a\nb",x,1', '"a\nb",y,2', "c,x,bad"))
    with pytest.raises(ValueError, match="line 6: 'bad' is not a number"):
        read_source(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names here")
def test_a_pipe_is_read_like_standard_input(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    for content in (table().encode(), b""):
        writer = threading.Thread(target=path.write_bytes, args=(content,))
        writer.start()
        if content:
            check_ratings(read_source(path).data)
        else:
            with pytest.raises(ValueError, match="pipe is empty"):
                read_source(path)
        writer.join()


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


HEADERS = {
    "u,i,r": "uir",
    "i,u,r": "uir",
    "user,item,rating": ("user", "item", "rating"),
    "item,user,rating": ("user", "item", "rating"),
    "i,j,v": "ijv",
    "j,i,v": "ijv",
    "i,j,y": "ijy",
    "i,movie,r": ("i", "movie", "r"),
    "user,i,r": ("user", "i", "r"),
    "x,y,z": "xyz",
    "r,c,v": "rcv",
    "u,i,j": "uij",
    "a,i,b": "aib",
    "user,item,time,r": ("user", "item", "r"),
}


@pytest.mark.parametrize("header", HEADERS)
def test_headers_say_which_column_is_which(header, tmp_path):
    lines = [",".join([str(k % 3), str(10 + k % 4), *("7.5" for _ in header.split(",")[2:])]) for k in range(12)]
    source = read_source(written(tmp_path, "\n".join([header, *lines]) + "\n"))
    row, col, value = HEADERS[header]
    assert source.how.endswith(f"one entry a line: {row} × {col} → {value}")


def test_letters_are_no_roles_among_many_columns(tmp_path):
    path = written(tmp_path, "\n".join(["a,b,i,j,k,u", "1,2,3,4,5,6", "2,3,4,5,6,7", "1,2,3,4,6,6"]) + "\n")
    assert read_source(path).data.shape == (3, 6)


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


def test_a_parquet_file_that_ends_the_process_which_reads_it(tmp_path, monkeypatch):
    path = written(tmp_path, PARQUET, "a.parquet")
    monkeypatch.setattr(parquet, "TRIAL", "import os; os.abort()")
    for read in (read_source, read_table):
        with pytest.raises(ValueError, match=r"a\.parquet is damaged .* ended with exit code -6"):
            read(path)


@pytest.mark.parametrize("at", [-7, -5, -2])
def test_a_damaged_end_of_a_parquet_file(tmp_path, at):
    content = bytearray(PARQUET)
    content[at] ^= 0xFF
    with pytest.raises(ValueError, match=r"a\.parquet is damaged or not a Parquet file"):
        read_source(written(tmp_path, bytes(content), "a.parquet"))


POSITIONS = {
    "csr": {"indices": np.array([0, 99], dtype=np.int32)},
    "csc": {"indptr": np.array([0, 5, 2, 2], dtype=np.int32)},
    "coo": {"row": np.array([0, -1], dtype=np.int32), "coords": np.array([[0, 99], [0, 1]])},
    "bsr": {"indices": np.array([-5], dtype=np.int32)},
    "dia": {"offsets": np.array([2**31 - 1], dtype=np.int32)},
}


@pytest.mark.parametrize("form", POSITIONS)
def test_positions_outside_of_a_sparse_matrix(tmp_path, form):
    """SciPy would write to memory that is not its own."""
    X = sparse.coo_array(([1.0, 2.0], ([0, 1], [0, 1])), shape=(2, 3)).asformat(form)
    with np.load(io.BytesIO(saved(lambda f: sparse.save_npz(f, X)))) as file:
        arrays = dict(file) | {k: v for k, v in POSITIONS[form].items() if k in file.files}
    with pytest.raises(ValueError, match=r"a\.npz"):
        read_source(written(tmp_path, saved(lambda f: np.savez(f, **arrays)), "a.npz"))


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
    np.savez(tmp_path / "h.npz", X=dense, Y=2 * dense)
    np.testing.assert_array_equal(read_source(tmp_path / "h.npz", variable="Y").data.to_dense(), 2 * dense)
    for name in ("g.mat", "h.npz"):
        said = r"2 matrices, X \(2 × 3\) and Y \(2 × 3\); name one: --variable X, or variable='X' in Python"
        with pytest.raises(ValueError, match=said):
            read_source(tmp_path / name)
        with pytest.raises(ValueError, match="no variable 'Z'; there are X, Y"):
            read_source(tmp_path / name, variable="Z")


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["f8", "f4", ">f8"])
def test_an_array_of_numpy_is_a_matrix(tmp_path, order, dtype):
    dense = np.array([[np.nan, 1.0, np.nan], [0.0, np.nan, 3.0]], dtype=dtype, order=order)
    content = saved(lambda f: np.save(f, dense))
    for name in ("a.npy", "without a suffix"):
        source = read_source(written(tmp_path, content, name))
        np.testing.assert_array_equal(source.data.to_dense(), dense)
        assert source.how == "NumPy, a matrix"


TEXT_ONLY = {"delimiter": ",", "header": True, "encoding": "latin-1"}


@pytest.mark.parametrize("option", ["delimiter", "header", "encoding", "layout", "rows", "variable"])
@pytest.mark.parametrize("suffix", [".npy", ".npz", ".mat", ".mtx", ".parquet", ".csv"])
def test_options_that_do_not_apply_are_refused(tmp_path, suffix, option):
    path, dense = tmp_path / f"a{suffix}", np.arange(6.0).reshape(2, 3)
    write = {
        ".npy": lambda: np.save(path, dense),
        ".npz": lambda: np.savez(path, X=dense),
        ".mat": lambda: scipy.io.savemat(path, {"X": dense}),
        ".mtx": lambda: scipy.io.mmwrite(path, dense),
        ".parquet": lambda: path.write_bytes(PARQUET),
        ".csv": lambda: path.write_text(table()),
    }
    write[suffix]()
    given = TEXT_ONLY | {"layout": "triplets", "rows": "user", "variable": "X"}
    applies = {".csv": {*TEXT_ONLY, "layout", "rows"}, ".parquet": {"layout", "rows"}}
    applies |= {".npz": {"variable"}, ".mat": {"variable"}}
    read_source(path)
    if option in applies.get(suffix, set()):
        read_source(path, **{option: given[option]})
    else:
        with pytest.raises(ValueError, match=rf"a\{suffix} is .*, to which {option} does not apply; leave it out"):
            read_source(path, **{option: given[option]})


@pytest.mark.parametrize("option", TEXT_ONLY)
def test_options_of_text_are_refused_for_parquet_everywhere(tmp_path, option):
    path = written(tmp_path, PARQUET, "a.parquet")
    for read in (read_table, read_pairs, lambda path, **given: prepare(path, tmp_path / "out", **given)):
        with pytest.raises(ValueError, match=f"is Parquet, to which {option} does not apply"):
            read(path, **{option: TEXT_ONLY[option]})


def test_delimiter_and_encoding_are_refused_together(tmp_path):
    with pytest.raises(ValueError, match="to which delimiter and encoding do not apply; leave them out"):
        read_source(written(tmp_path, PARQUET, "a.parquet"), delimiter=",", encoding="latin-1")


def npy_header(claims):
    """The header of an array that claims this shape."""
    fields = {"descr": "<f8", "fortran_order": False, "shape": claims}
    return saved(lambda f: np.lib.format.write_array_header_1_0(f, fields))


def npy(claims):
    """An npz file with an array whose header claims another shape."""
    return saved(lambda f: zipped(f, "X.npy", npy_header(claims) + b"\0" * 80))


PARQUET = saved(lambda f: pl.DataFrame({"user": [1, 1, 2], "item": [1, 2, 1], "rating": [1.0, 2, 3]}).write_parquet(f))
NPZ = saved(lambda f: np.savez(f, X=np.ones((30, 30))))
ZIPPED = saved(lambda f: zipped(f, "r.csv", table().encode()))
LONG = b"user,item,rating\n" + b"".join(
    b"a%d,b%d,1\n" % (k, k % 7) for k in range(9000)
)  # more than is looked at first
MARKET = b"%%MatrixMarket matrix coordinate real general\n"
BAD = {
    "nothing": ("a.csv", b"", "is empty"),
    "blank lines": ("a.csv", b"\n\n  \n", "is empty"),
    "a header alone": ("a.csv", b"user,item,rating\n", "nothing below"),
    "one line of numbers": ("a.csv", b"3\n", "no delimiter found"),
    "one column": ("a.csv", b"a\nb\nc\n", "no delimiter found"),
    "prose": ("a.txt", b"Lorem\nipsum\n", "no delimiter found"),
    "wrong delimiter given": ("a.csv", table(";").encode(), "only one column.*delimiter", {"delimiter": ","}),
    "a cell too many": ("a.csv", b"user,item,rating\na,x,1\nb,x,2,9\nb,y,2\n", "line 3: 4 cells"),
    "a cell too few": ("a.csv", b"user,item,rating\na,x,1\nb,x\nb,y,2\n", "line 3: 2 cells"),
    "a word for a value": ("a.csv", b"user,item,rating\na,x,1\nb,x,good\nb,y,2\n", "line 3: 'good' is not a number"),
    "a word late": (
        "a.csv",
        b"user,item,rating\n" + b"a,x,1\n" * 1 + b"".join(b"b,%d,2\n" % k for k in range(11_000)) + b"c,x,?!\n",
        "line 11003: '[?]!' is not a number",
    ),
    "no value": ("a.csv", b"user,item,rating\na,x,1\nb,x,\nb,y,2\n", "line 3: '' is not a number"),
    "no user": ("a.csv", b"user,item,rating\na,x,1\n,x,2\nb,y,2\n", "line 3: cell 1 is empty, where an id"),
    "an open quote": ("a.csv", b'user,item,rating\nc,z,1\na,"x,1\nb,x,2\nb,y,2\n', "line 3: a quote opens"),
    "an open quote in the last line": ("a.csv", b'user,item,rating\na,x,1\nb,y,"2\n', "line 3: a quote opens"),
    "an open quote, then much": (
        "a.csv",
        table().encode() + b'z,"z,1\n' + b"b,x,2\n" * 30_000,
        "line 6: a quote opens",
    ),
    "NUL late": ("a.csv", LONG + b"q\0q,b1,2\n", "line 9002: there is a NUL byte.*remove it"),
    "damaged UTF-8": ("a.csv", LONG + "ü,ö,1\n".encode() + b"J\xf6rg,b1,2\n", "line 9003: the byte 0xf6 is not UTF-8"),
    "not the encoding that was told": (
        "a.csv",
        LONG + b"J\xf6rg,b1,2\n",
        "line 9002: the byte 0xf6 is not UTF-8",
        {"encoding": "utf-8"},
    ),
    "an encoding that does not fit": ("a.csv", table().encode("utf-16"), "a.csv.* not ascii", {"encoding": "ascii"}),
    "a quote in a cell": ("a.csv", table().encode() + b'bob,"12" disk",1\neva,"x",1\n', "line 6: a quote is inside"),
    "escaped quotes and a line too short": (
        "a.csv",
        b'user,item,rating\n"a","\\"x",1\n"b","y"\n"c","\\"z",1\n',
        "line 3: 2 cells",
    ),
    "separator of thousands": (
        "a.csv",
        b'user,item,rating\na,x,"1,234.5"\nb,x,2\n',
        "line 2: '1,234.5' is not a number; wr",
    ),
    "thousands by semicolon": (
        "a.csv",
        b"a;x;1,234.5\na;y;2,345.6\nb;x;1,000.0\n",
        "line 1: '1,234.5' is not a number; wr",
    ),
    "percent": ("a.csv", b"user,item,rating\na,x,5%\nb,x,6%\nb,y,7%\n", "line 2: '5%' is not a number; .*percent"),
    "percent in a matrix": ("a.csv", b"a,b\n1,2\n3,5%\n", "line 3: '5%' is not a number; .*percent sign$"),
    "true and false": (
        "a.csv",
        b"user,item,rating\na,x,true\nb,x,false\n",
        "line 2: 'true' is not a number; write 1 and 0",
    ),
    "underscores": ("a.csv", b"user,item,rating\na,x,1\nb,x,1_000\n", "line 3: '1_000' is not a number; write"),
    "a title": ("a.csv", b"Ratings of 2020\nuser,item,rating\na,x,1\nb,x,2\n", "line 1: 1 cell, .* title"),
    "a comment": (
        "a.csv",
        b"# by me, you, us\nuser,item,rating\na,x,1\nb,x,2\n",
        "line 2: 'rating' is not a number; correct",
    ),
    "decimals or thousands": (
        "a.csv",
        b"user;item;rating\na;x;1,234\nb;x;2,345\n",
        "line 2: the comma in '1,234' may be .* write 1.234",
    ),
    "two delimiters": ("a.csv", b"5;1,2,3,4\n6;1,2,3,4\n7;1,2,3,4\n", "by comma or by semicolon; give the delimiter"),
    "a zipped table": ("a.zip", ZIPPED, r"is a zip archive \(r.csv\); unpack it first"),
    "bzip2": ("a.csv.bz2", bz2.compress(b"user,item,rating\na,x,1\n"), "bzip2; unpack it first"),
    "xz": ("a.csv.xz", lzma.compress(b"user,item,rating\na,x,1\n"), "xz; unpack it first"),
    "JSON": ("a.json", b'[\n  {"user": 1, "item": 2, "rating": 3},\n', "is JSON; a table is needed"),
    "JSON of numbers": ("a.json", b"[1, 2, 3]\n", "is JSON; a table is needed"),
    "HTML": ("a.csv", b"<!DOCTYPE html>\n<html><head></head>, a, b\n", "is HTML, .* a table is needed"),
    "NUL bytes": ("a.csv", b"user,item,rating\na,x,1\nb,\0,2\n", "line 3: there is a NUL byte"),
    "UTF-16 without a mark": ("a.csv", "user,item,rating\na,x,1\n".encode("utf-16-le"), "NUL byte.*utf-16-le"),
    "infinite": ("a.csv", b"user,item,rating\na,x,1\nb,x,inf\nb,y,2\n", "1 of 3 values are infinite"),
    "far too large": ("a.csv", b"user,item,rating\na,x,1\nb,x,1e999\nb,y,2\n", "infinite"),
    "words in a matrix": ("a.csv", b"a,b,c,d,e\n1,2,3,4,x\n5,6,7,8,y\n", "line 2: 'x' is not a number; a matrix"),
    "truncated gzip": ("a.csv.gz", gzip.compress(table().encode())[:-9], "compressed content ends too early"),
    "broken gzip": ("a.csv.gz", b"\x1f\x8b\x08\x00nonsense", "compressed content"),
    "truncated Parquet": ("a.parquet", PARQUET[: len(PARQUET) // 2], "not a Parquet file"),
    "Parquet by name only": ("a.parquet", b"user,item,rating\n", "not a Parquet file"),
    "truncated npz": ("a.npz", NPZ[: len(NPZ) // 2], "damaged or not an npz"),
    "npz of objects": ("a.npz", saved(lambda f: np.savez(f, X=np.array([{}], dtype=object))), "Python objects"),
    "npz that claims 10 GB": ("a.npz", npy((40_000, 40_000)), "claims shape"),
    "npy of objects": ("a.npy", saved(lambda f: np.save(f, np.array([{}], dtype=object))), "holds Python objects"),
    "npy that claims 10 GB": ("a.npy", npy_header((40_000, 40_000)) + b"\0" * 80, "claims shape"),
    "npy of a line": ("a.npy", saved(lambda f: np.save(f, np.ones(4))), r"shape \(4,\) and type float64; a matrix"),
    "truncated npy": ("a.npy", saved(lambda f: np.save(f, np.ones((4, 4))))[:-8], "claims shape|damaged"),
    "npy by name only": ("a.npy", b"1,2\n3,4\n", "damaged or not an npy file"),
    "npz of a line": ("a.npz", saved(lambda f: np.savez(f, X=np.ones(4))), "one matrix of numbers"),
    "market without its title": ("a.mtx", b"2 2 1\n1 1 3.0\n", "line 1: a MatrixMarket file begins"),
    "market that claims 10 GB": ("a.mtx", MARKET + b"100000 100000 1000000000\n1 1 3.0\n", "more than the file"),
    "market that ends early": ("a.mtx", MARKET + b"2 2 3\n1 1 3.0\n", "not a valid MatrixMarket file"),
    "market beyond its size": ("a.mtx", MARKET + b"2 2 1\n3 1 3.0\n", "not a valid MatrixMarket file"),
    "market with words": ("a.mtx", MARKET + b"2 2 1\n1 1 three\n", "not a valid MatrixMarket file"),
    "no MATLAB file": ("a.mat", b"MATLAB 5.0 nonsense" * 20, "not a MATLAB file"),
    "truncated MATLAB file": (
        "a.mat",
        saved(lambda f: scipy.io.savemat(f, {"X": np.ones((30, 30))}))[:400],
        "MATLAB file|memory|one matrix",
    ),
    "an npz with a header that is no header": (
        "a.npz",
        saved(lambda f: zipped(f, "X.npy", b"\x93NUMPY\x01\x00\x10\x00{'descr': ((((((((")),
        "damaged or not an npz file",
    ),
    "an npz with a file in it that is none": (
        "a.npz",
        saved(lambda f: zipped(f, "X.npy", b"")),
        "damaged or not an npz file",
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


@pytest.mark.parametrize("kind", [k for k in BAD if k.endswith("is none") or "np" in k or "MATLAB" in k])
def test_messages_hold_no_names_of_classes(kind, tmp_path):
    name, content, *_ = BAD[kind]
    with pytest.raises(ValueError, match="a\\.") as caught:
        read_source(written(tmp_path, content, name))
    assert "Error" not in str(caught.value)
    assert "BadZip" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_source(tmp_path / "none.csv")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        read_source(tmp_path)


def test_no_line_with_cells_is_said():
    with pytest.raises(ValueError, match=r"f\.csv has no table in it: all lines are empty"):
        _check_alike([], ",", "f.csv")
