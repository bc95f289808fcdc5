"""Prepared folders hold what `read_source` reads, whatever becomes of them otherwise is told."""

import gzip
import json
import os
import shutil
import time
import zlib

import numpy as np
import polars as pl
import pytest

from plain import plain_completion
from rslm.data import holdout, read_source
from rslm.data.prepared import write
from rslm.data.prepared.manifest import Manifest, checksum
from rslm.data.prepared.opened import open_prepared
from rslm.data.prepared.write import prepare

RNG = np.random.default_rng(0)
PAIRS = np.unique(RNG.integers(0, 60, (1500, 2)), axis=0)
RNG.shuffle(PAIRS)
VALUES = RNG.integers(1, 11, len(PAIRS)) / 2


def table(delimiter=",", header="user,item,rating,time", user="{}", item="{}"):
    entries = zip(PAIRS, VALUES, strict=True)
    lines = [delimiter.join((user.format(i), item.format(j), f"{v}", "7")) for (i, j), v in entries]
    return "\n".join(([header.replace(",", delimiter)] if header else []) + lines) + "\n"


def same(found, expected):
    for name in ("indptr", "index"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-12)
    assert found.shape == expected.shape
    assert found.row_ids.tolist() == expected.row_ids.tolist()
    assert found.col_ids.tolist() == expected.col_ids.tolist()


FORMS = {
    "comma": table(),
    "decimal comma": table(";").replace(".", ","),
    "tab": table("\t"),
    "movielens": table("::", header=None),
    "words": table(user="user {}", item="Fïlm {}"),
    "quoted": table(item='"a, {}"'),
    "words later": table().replace("\n59,", "\nx59,"),
}


@pytest.mark.parametrize("shard", [100, 4_000_000])
@pytest.mark.parametrize("form", FORMS)
def test_text(tmp_path, monkeypatch, form, shard):
    monkeypatch.setattr(write, "SHARD", shard)
    (tmp_path / "t.csv").write_text(FORMS[form], encoding="utf-8")
    manifest = prepare(tmp_path / "t.csv", tmp_path / "out")
    source = read_source(tmp_path / "t.csv")
    found = open_prepared(tmp_path / "out", check=True)
    same(found, source.data)
    assert isinstance(found.index, np.memmap)
    assert found.values.dtype == np.float32  # halves are exact in it
    assert (len(manifest.shards) > 1) == (shard == 100)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "t.csv"]


def test_other_files(tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(table().encode()))
    prepare(tmp_path / "t.csv.gz", tmp_path / "zipped")
    frame = pl.DataFrame({"user": PAIRS[:, 0], "item": PAIRS[:, 1], "rating": VALUES + 0.1})
    frame.write_parquet(tmp_path / "t.parquet")
    prepare(tmp_path / "t.parquet", tmp_path / "parquet")
    same(open_prepared(tmp_path / "zipped"), read_source(tmp_path / "t.csv.gz").data)
    wide = open_prepared(tmp_path / "parquet")
    same(wide, read_source(tmp_path / "t.parquet").data)
    assert wide.values.dtype == np.float64


@pytest.mark.parametrize("duplicates", ["sum", "mean", "last"])
def test_repeated_entries(tmp_path, duplicates):
    more = table() + "".join(f"{i},{j},{v + 1},7\n" for (i, j), v in zip(PAIRS[:50], VALUES[:50], strict=True))
    (tmp_path / "t.csv").write_text(more)
    with pytest.raises(ValueError, match=r"t.csv: .*"):
        prepare(tmp_path / "t.csv", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    prepare(tmp_path / "t.csv", tmp_path / "out", duplicates=duplicates)
    same(open_prepared(tmp_path / "out"), read_source(tmp_path / "t.csv", duplicates=duplicates).data)


def test_an_old_folder_is_replaced_only_if_asked(tmp_path):
    (tmp_path / "t.csv").write_text(table())
    prepare(tmp_path / "t.csv", tmp_path / "out")
    with pytest.raises(FileExistsError, match="exists"):
        prepare(tmp_path / "t.csv", tmp_path / "out")
    (tmp_path / "u.csv").write_text(table().replace("user", "who"))
    prepare(tmp_path / "u.csv", tmp_path / "out", rows="who", force=True)
    assert "who" in Manifest.read(tmp_path / "out").how
    (tmp_path / "mine").mkdir()
    with pytest.raises(FileExistsError, match="not prepared data"):
        prepare(tmp_path / "t.csv", tmp_path / "mine", force=True)
    assert list((tmp_path / "mine").iterdir()) == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1,2,good,7", "good"),
        ("1,2,,7", "missing"),
        (",2,3,7", "no id"),
        ("1,2,inf,7", "infinite"),
        ("1,2", "Line: 701"),
    ],
)
def test_what_is_wrong_leaves_nothing_behind(tmp_path, line, message):
    text = table().splitlines()
    (tmp_path / "t.csv").write_text("\n".join([*text[:700], line, *text[700:]]))
    with pytest.raises(ValueError, match=message) as caught:
        prepare(tmp_path / "t.csv", tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]


def damaged(folder, what):
    if what == "a value":
        with (folder / "values.npy").open("r+b") as file:
            file.seek(-1, 2)
            file.write(b"\x7f")
    elif what == "cut":
        path = folder / "index.npy"
        path.write_bytes(path.read_bytes()[:-8])
    elif what == "gone":
        (folder / "values.npy").unlink()
    elif what == "manifest":
        (folder / "manifest.json").write_text("{")
    elif what == "newer":
        found = json.loads((folder / "manifest.json").read_text())
        (folder / "manifest.json").write_text(json.dumps(found | {"version": 9}))
    elif what == "another":
        found = json.loads((folder / "manifest.json").read_text())
        (folder / "manifest.json").write_text(json.dumps(found | {"entries": 5}))
    elif what == "ids":
        (folder / "row_ids.npy").write_bytes(b"nonsense")
    elif what == "one id":
        with (folder / "row_ids.npy").open("r+b") as file:
            file.seek(-1, 2)
            file.write(b"\x7f")
    elif what == "no ids":
        (folder / "col_ids.npy").unlink()


@pytest.mark.parametrize("what", ["a value", "cut", "gone", "manifest", "newer", "another", "ids", "one id", "no ids"])
def test_damage_is_found(tmp_path, what):
    (tmp_path / "t.csv").write_text(table())
    prepare(tmp_path / "t.csv", tmp_path / "out")
    damaged(tmp_path / "out", what)
    with pytest.raises(ValueError, match="prepare"):
        open_prepared(tmp_path / "out", check=True)
    with pytest.raises(ValueError, match="prepare"):
        read_source(tmp_path / "out")


def resealed(folder):
    """With checksums that are right, whatever has become of the rest."""
    found = json.loads((folder / "manifest.json").read_text())
    indptr, index, values = (np.load(folder / f"{name}.npy") for name in ("indptr", "index", "values"))
    found["indptr"] = checksum(indptr)
    found["shards"][0] |= {"index": checksum(index), "values": checksum(values)}
    found["ids"] = [zlib.crc32((folder / f"{side}_ids.npy").read_bytes()) for side in ("row", "col")]
    (folder / "manifest.json").write_text(json.dumps(found))


CHANGES = {
    "a column beyond all": ("index", lambda a: np.where(np.arange(len(a)) == 5, 99, a)),
    "a column twice": ("index", lambda a: np.where(np.arange(len(a)) == 1, a[0], a)),
    "no number": ("values", lambda a: np.where(np.arange(len(a)) == 5, np.nan, a)),
    "another type": ("index", lambda a: a.astype(np.int64)),
    "two dimensions": ("values", lambda a: a[:, None]),
    "no order": ("indptr", lambda a: np.concatenate([a[:1], a[1:-1][::-1], a[-1:]])),
    "words": ("row_ids", lambda a: a.astype(str)),
    "too few ids": ("row_ids", lambda a: a[:-1]),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_damage_with_right_checksums_is_found(tmp_path, kind):
    (tmp_path / "t.csv").write_text(table())
    prepare(tmp_path / "t.csv", tmp_path / "out")
    name, change = CHANGES[kind]
    path = tmp_path / "out" / f"{name}.npy"
    before = np.load(path)
    np.save(path, change(before).astype(before.dtype if kind.startswith(("a ", "no")) else None))
    resealed(tmp_path / "out")
    with pytest.raises(ValueError, match="prepare the data again"):
        open_prepared(tmp_path / "out", check=True)


@pytest.mark.parametrize(
    "change", [{"shape": 3}, {"shards": []}, {"entries": "many"}, {"ids": [1]}, {"shape": [60, -1]}, {"how": None}]
)
def test_a_manifest_that_says_something_else(tmp_path, change):
    (tmp_path / "t.csv").write_text(table())
    prepare(tmp_path / "t.csv", tmp_path / "out")
    found = json.loads((tmp_path / "out" / "manifest.json").read_text())
    (tmp_path / "out" / "manifest.json").write_text(json.dumps(found | change))
    with pytest.raises(ValueError, match=r"manifest\.json is damaged .*prepare the data again"):
        open_prepared(tmp_path / "out")


@pytest.mark.parametrize("side", [0, 1])
def test_words_on_one_side_leave_the_other_one_numbers(tmp_path, side):
    words = [["x9", "7", "4.5"], ["7", "x9", "4.5"]][side]
    (tmp_path / "t.csv").write_text(table() + ",".join(words) + ",7\n")
    prepare(tmp_path / "t.csv", tmp_path / "out")
    same(open_prepared(tmp_path / "out"), read_source(tmp_path / "t.csv").data)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_path_that_is_a_pattern_too(tmp_path, kind):
    """DuckDB would read the files of both folders."""
    for folder in ("a*", "a1"):
        (tmp_path / folder).mkdir()
        frame = pl.DataFrame({"user": [1, 2, 3], "item": [1, 1, 2], "rating": [1.0, 2.0, 3.0]})
        frame.write_csv(tmp_path / folder / "t.csv")
        frame.write_parquet(tmp_path / folder / "t.parquet")
    with pytest.raises(ValueError, match=r"has \*, \? or \[ in its path"):
        prepare(tmp_path / "a*" / f"t.{kind}", tmp_path / "out")


def test_what_is_not_ours_is_not_thrown_away(tmp_path):
    (tmp_path / "t.csv").write_text(table())
    prepare(tmp_path / "t.csv", tmp_path / "out")
    (tmp_path / "out" / "fit.checkpoint").write_text("mine")
    with pytest.raises(FileExistsError, match=r"holds 'fit\.checkpoint', which is not prepared data"):
        prepare(tmp_path / "t.csv", tmp_path / "out", force=True)


def test_a_killed_process_leaves_nothing_for_ever(tmp_path):
    (tmp_path / "t.csv").write_text(table())
    for name, age in (("old", 2 * write.OLD), ("new", 0)):
        (tmp_path / f".out.{name}.unfinished").mkdir()
        os.utime(tmp_path / f".out.{name}.unfinished", (time.time() - age,) * 2)
    prepare(tmp_path / "t.csv", tmp_path / "out")
    assert sorted(p.name for p in tmp_path.iterdir()) == [".out.new.unfinished", "out", "t.csv"]


def test_options_of_a_file_are_refused(tmp_path):
    (tmp_path / "t.csv").write_text(table())
    prepare(tmp_path / "t.csv", tmp_path / "out")
    with pytest.raises(ValueError, match="is prepared data, to which rows does not apply; leave it out"):
        read_source(tmp_path / "out", rows="user")


def test_a_folder_that_is_something_else(tmp_path):
    with pytest.raises(FileNotFoundError, match="not prepared data"):
        open_prepared(tmp_path)


def test_a_full_disk_leaves_the_old_folder(tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_text(table())
    prepare(tmp_path / "t.csv", tmp_path / "out")
    before = {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()}

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(write.np, "save", full)
    with pytest.raises(OSError, match=r"nothing was written: .*out"):
        prepare(tmp_path / "t.csv", tmp_path / "out", force=True)
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "t.csv"]
    shutil.rmtree(tmp_path / "out")


def test_a_folder_is_read_and_fitted_like_the_file(tmp_path):
    """To the last bit: where the arrays lie changes nothing."""
    (tmp_path / "t.csv").write_text(table())
    prepare(tmp_path / "t.csv", tmp_path / "out")
    folder, file = read_source(tmp_path / "out"), read_source(tmp_path / "t.csv")
    assert folder.how == "prepared data"
    read = file.data.with_values(file.data.values.astype(np.float32))
    mapped = [holdout(data, 0.2, 0) for data in (folder.data, read)]
    for loss in ("square", "huber", "logistic"):
        models = []
        for train, _ in mapped:
            y = train.values if loss != "logistic" else (train.values > 2.5).astype(np.float32)
            models.append(plain_completion(3, 10.0, loss=loss, weighting=0.5, random_state=0).fit(train.with_values(y)))
        np.testing.assert_array_equal(models[0].row_factors_, models[1].row_factors_)
        np.testing.assert_array_equal(models[0].residuals_.values, models[1].residuals_.values)
        assert models[0].certificate_ == models[1].certificate_
    assert isinstance(mapped[0][0].index, np.memmap)
    assert not [p for p in (tmp_path / "out").iterdir() if p.name.startswith(".")]


def test_a_matrix_is_told_as_such(tmp_path):
    (tmp_path / "m.csv").write_text("a,b,c,d,e\n" + "1,2,3,4,5\n" * 5)
    with pytest.raises(ValueError, match=r"m.csv looks like a matrix"):
        prepare(tmp_path / "m.csv", tmp_path / "out")
    prepare(tmp_path / "m.csv", tmp_path / "out", rows="a", cols="b", values="c", duplicates="mean")
    assert open_prepared(tmp_path / "out").shape == (1, 1)
