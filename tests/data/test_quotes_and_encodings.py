"""Text that is written in other ways: nothing is lost, and what was guessed is said."""

import csv
import gzip
import io
import tracemalloc

import pandas as pd
import pytest

from rslm.data.files import read_pairs, read_source, read_table, scratch
from rslm.data.files.plain import Plain
from rslm.data.files.quotes import CACHED, survey
from rslm.data.files.tools import BLOCK
from rslm.data.prepared.opened import open_prepared
from rslm.data.prepared.write import prepare

HEADER = '"User-ID";"ISBN";"Book-Rating"\n'


def books(rows, title="Caché"):
    """As in the Book-Crossing files: all in quotes, and now and then an id that begins with one."""
    names = [f'\\"{k}' if k % 7 == 0 else f'{k}\\"' if k % 11 == 0 else f"{title} {k}" for k in range(rows)]
    return HEADER + "".join(f'"{k // 3}";"{name}";"{k % 10 + 1}"\n' for k, name in enumerate(names))


def written(tmp_path, content, name="data.csv"):
    path = tmp_path / name
    path.write_bytes(content)
    return path


def expected(content, encoding):
    frame = pd.read_csv(io.BytesIO(content), sep=";", escapechar="\\", encoding=encoding, dtype=str)
    return {(int(a), b): float(c) for a, b, c in frame.itertuples(index=False)}


def triples(data):
    rows = data.rows_of_entries()
    return {(data.row_ids[i], data.col_ids[j]): v for i, j, v in zip(rows, data.index, data.values, strict=True)}


@pytest.mark.parametrize("way", ["read", "read from disk", "prepare", "compressed"])
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16"])
def test_quotes_after_backslashes(tmp_path, monkeypatch, way, encoding):
    content = books(500).encode(encoding)
    packed = gzip.compress(content) if way == "compressed" else content
    path = written(tmp_path, packed, "data.csv.gz" if way == "compressed" else "data.csv")
    if way == "read from disk":
        monkeypatch.setattr(scratch, "SHORT", 10)
        monkeypatch.setattr(scratch.tempfile, "tempdir", str(tmp_path))
    if way == "prepare":
        how, data = prepare(path, tmp_path / "out").how, open_prepared(tmp_path / "out", check=True)
    else:
        source = read_source(path)
        how, data = source.how, source.data
    assert triples(data) == expected(content, encoding)
    assert "quotes escaped by backslashes" in how
    assert {"utf-8": "8", "latin-1": "Latin-1 as it is not UTF-8", "utf-16": "UTF-16"}[encoding] in how + "8"
    assert {p.name for p in tmp_path.iterdir()} <= {path.name, "out"}  # nothing is left behind


def test_a_backslash_alone_stays(tmp_path):
    content = 'user;item;rating\n"a\\b";"x\\"y";1\n"c\\\\d";"C:\\new\\\\";2\n'
    source = read_source(written(tmp_path, content.encode()))
    assert source.data.row_ids.tolist() == ["a\\b", "c\\d"]
    assert set(source.data.col_ids.tolist()) == {'x"y', "C:\\new\\"}


def test_a_cell_that_ends_with_a_backslash(tmp_path):
    content = 'user;item;rating\n"C:\\dir\\";"x";1\n"D:\\";"y";2\n'
    source = read_source(written(tmp_path, content.encode()))
    assert source.data.row_ids.tolist() == ["C:\\dir\\", "D:\\"]
    assert "backslash" not in source.how


ODD = {
    "inches": 'user;item;rating\nanna;12" disk;1\nbob;7" disk;2\n',
    "inches of one": 'user;item;rating\nanna;12" disk;1\nbob;disk;2\n',
    "doubled": 'user;item;rating\nanna;"12"" disk";1\nbob;"""";2\n',
    "blanks before a quote that is part of a cell": 'user;item;rating\nanna; "Weird" Al;1\nbob; "Weird" Al;2\n',
    "returns": 'user;item;rating\ranna;12" disk;1\rbob;disk;2\r',
}


@pytest.mark.parametrize("kind", ODD)
def test_quotes_as_pythons_reader_reads_them(tmp_path, kind):
    data = read_source(written(tmp_path, ODD[kind].encode())).data
    cells = list(csv.reader(io.StringIO(ODD[kind], newline=""), delimiter=";"))[1:]
    assert set(triples(data)) == {(user, item) for user, item, _ in cells}


@pytest.mark.parametrize("way", [read_source, read_table, prepare])
@pytest.mark.parametrize("delimiter", [",", ";", "::"])
@pytest.mark.parametrize("lines", [1, 20_000])  # more than a block
def test_blanks_before_quotes_belong_to_no_cell(tmp_path, way, delimiter, lines):
    content = "user, item, rating\n" + '1, "a, b", 3\n2, "a, b", 4\n1, c, 4\n2, "c", 5\n'
    content += "".join(f'{k}, "a, b", 1\n' for k in range(3, lines))
    path = written(tmp_path, content.replace(", ", f"{delimiter} ").replace(f"a{delimiter} b", "a, b").encode())
    if way is read_table:
        table = read_table(path)
        how, items = table.how, set(table.ids("item").tolist())
    elif way is prepare:
        how, items = prepare(path, tmp_path / "out").how, set(open_prepared(tmp_path / "out").col_ids.tolist())
    else:
        source = read_source(path)
        how, items = source.how, set(source.data.col_ids.tolist())
    assert items == {"a, b", "c"}
    assert "blanks before cells left out" in how


GOOD = "".join(f"{k % 50},item {k},{k % 5}\n" for k in range(3000))
UNCLOSED = {
    "and no other": (f'user,item,rating\n{GOOD}7,"bad,3\n{GOOD}', 3002, "is never closed"),
    "then a cell in quotes in the next line": (
        f'user,item,rating\n{GOOD}7,"bad,3\n8,"good",3\n9,x,1\n',
        3002,
        "the next one is within line 3003; close it",
    ),
    "then a cell in quotes later": (
        f'user,item,rating\n{GOOD}7,"bad,3\n9,x,1\n8,"good",3\n',
        3002,
        "the next one is within line 3004; close it",
    ),
    "after a cell of two lines": (f'user,item,rating\n{GOOD}"u\nv","bad,3\n', 3003, "is never closed"),
    "after a blank": (f'user,item,rating\n{GOOD}7, "a, b",3\n8,"bad,3\n9,"x",3\n', 3003, "the next one is within"),
    "blanks after a cell": (f'user,item,rating\n{GOOD}7,"a, b" ,3\n', 3002, "blanks follow a quoted cell"),
    "a quote within": (f'user,item,rating\n{GOOD}"u\nv","a"b",3\n', 3003, "a quote is inside a quoted cell"),
}


@pytest.mark.parametrize("kind", UNCLOSED)
def test_the_line_of_a_quote_that_does_not_close(tmp_path, kind):
    content, line, reason = UNCLOSED[kind]
    with pytest.raises(ValueError, match=f"line {line}: .*{reason}"):
        read_source(written(tmp_path, content.encode()))


@pytest.mark.parametrize("delimiter", ["::", " ", "|"])
def test_escaped_quotes_with_other_separators(tmp_path, delimiter):
    lines = ["user,item,rating", '"a","\\"x y",1', '"b","z",2']
    path = written(tmp_path, "\n".join(lines).replace(",", delimiter).encode())
    assert set(triples(read_source(path).data)) == {("a", '"x y'), ("b", "z")}
    if delimiter != " ":
        prepare(path, tmp_path / "out")
        assert set(triples(open_prepared(tmp_path / "out"))) == {("a", '"x y'), ("b", "z")}


def test_a_line_break_in_a_cell_is_told(tmp_path):
    content = b'user,item,rating\na,x,1\n"b\nc",x,2\n"d\r\ne",y,2\n'
    path = written(tmp_path, content)
    said = "2 line breaks within cells (the first in line 3)"
    assert said in read_source(path).how
    assert said in read_table(path).how
    assert said in prepare(path, tmp_path / "out").how
    assert "line break" not in read_source(written(tmp_path, b"user,item,rating\na,x,1\nb,y,2\n")).how


GUESSES = {
    "utf-8": ("Jörg", ""),
    "utf-8-sig": ("Jörg", ""),
    "latin-1": ("Jörg", "in Latin-1 as it is not UTF-8"),
    "cp1252": ("Jörg – €", "in Windows-1252 as it is not UTF-8"),
    "utf-16": ("Jörg – €", "in UTF-16"),
    "utf-32": ("Jörg – €", "in UTF-32"),
}


@pytest.mark.parametrize("late", [False, True])  # beyond what a sample shows
@pytest.mark.parametrize("encoding", GUESSES)
def test_the_guess_of_an_encoding_is_said(tmp_path, encoding, late):
    name, said = GUESSES[encoding]
    before = "".join(f"u{k},i,1\n" for k in range(9000 if late else 1))
    path = written(tmp_path, f"user,item,rating\n{before}{name},i,1\n{name},j,2\n".encode(encoding))
    for source in (read_source(path), read_table(path)):
        assert said in source.how
        assert ("in " in source.how.split("one entry")[0].replace("with", "")) == bool(said)
    assert name in read_source(path).data.row_ids.tolist()
    assert name in read_pairs(path)[0].tolist()


@pytest.mark.parametrize("encoding", ["shift_jis", "utf-16-le", "cp1251", "cp037"])
def test_an_encoding_that_is_told(tmp_path, encoding):
    name = {"shift_jis": "ソ表", "cp1251": "Жук"}.get(encoding, "é")  # whose second byte is a backslash
    path = written(tmp_path, f"user,item,rating\n{name},x,1\n{name},y,2\n".encode(encoding))
    assert read_source(path, encoding=encoding).data.row_ids.tolist() == [name]
    assert read_pairs(path, encoding=encoding)[0].tolist() == [name, name]
    prepare(path, tmp_path / "out", encoding=encoding)
    assert open_prepared(tmp_path / "out").row_ids.tolist() == [name]


@pytest.mark.parametrize("encoding", ["nonsense", "hex", "a\0b", ""])
def test_an_encoding_that_does_not_exist(tmp_path, encoding):
    with pytest.raises(ValueError, match="is not known; use one such as"):
        read_source(written(tmp_path, b"a,b\n1,2\n"), encoding=encoding)


@pytest.mark.parametrize("at", range(-4, 3))
def test_quotes_and_signs_wherever_a_block_ends(at):
    before = "x" * (CACHED + at - 3)
    assert survey(f'{before},"é""\n",1\n'.encode(), "", ",").usual
    assert survey(f'{before},"é""\n",1\n'.encode(), "", ",").breaks == 1
    assert survey(f'{before},"é"x"\n",1\n'.encode(), "", ",").usual is False
    assert survey(f'{before},"é\\"x",1\n'.encode(), "", ",").escaped
    assert not survey(f"{before}é".encode()[:-1], "", ",").utf8
    assert survey(f"{before}é".encode(), "", ",").utf8


def test_memory_is_bounded(tmp_path):
    """Of text that is rewritten, no more than a few blocks are in memory."""
    path = written(tmp_path, books(30_000, "Caché " * 60).encode("latin-1"))
    assert path.stat().st_size > 8 * BLOCK
    tracemalloc.start()
    plain = Plain.of("books", path, None, None, None, folder=tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert plain.dialect.remarks[1] == "quotes escaped by backslashes"
    # A block as bytes, as 64-bit numbers to be counted, and as text: 14. With all of the text it would be 22.
    assert peak < 16 * BLOCK
