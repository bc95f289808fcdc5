"""Weights of entries in tables, npz files and prepared folders."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from rslm.data import ObservedMatrix, holdout, read_source
from rslm.data.prepared import write
from rslm.data.prepared.manifest import checksum
from rslm.data.prepared.opened import open_prepared
from rslm.data.prepared.write import prepare

RNG = np.random.default_rng(0)
PAIRS = np.unique(RNG.integers(0, 40, (600, 2)), axis=0)
RNG.shuffle(PAIRS)
VALUES = RNG.integers(1, 11, len(PAIRS)) / 2
WEIGHTS = np.round(RNG.random(len(PAIRS)) * 3, 2)  # some may be 0
WEIGHTS[[5, 17]] = 0.0
HEADER = "user,item,rating,weight"


def expected(item: str = "{}") -> ObservedMatrix:
    cols = [item.format(j) for j in PAIRS[:, 1]] if item != "{}" else PAIRS[:, 1]
    return ObservedMatrix.from_ratings(PAIRS[:, 0], cols, VALUES, weights=WEIGHTS)


def table(delimiter: str = ",", header: str | None = HEADER, item: str = "{}", weight: str = "{}") -> str:
    lines = [
        delimiter.join((str(i), item.format(j), str(v), weight.format(w)))
        for (i, j), v, w in zip(PAIRS, VALUES, WEIGHTS, strict=True)
    ]
    return "\n".join(([header.replace(",", delimiter)] if header else []) + lines) + "\n"


def frame() -> pl.DataFrame:
    return pl.DataFrame({"user": PAIRS[:, 0], "item": PAIRS[:, 1], "rating": VALUES, "weight": WEIGHTS})


def same(found: ObservedMatrix, other: ObservedMatrix) -> None:
    assert found.shape == other.shape
    for name in ("indptr", "index", "values", "row_ids", "col_ids"):
        np.testing.assert_array_equal(getattr(found, name), getattr(other, name))
    assert found.weights is not None
    assert found.weights.dtype == np.float64
    np.testing.assert_array_equal(found.weights, other.weights)


FORMS: dict[str, tuple[str, Any, str]] = {
    "comma": (table(), "weight", "{}"),
    "by number": (table(), 4, "{}"),
    "decimal comma": (table(";").replace(".", ","), "weight", "{}"),
    "without a header": (table("::", header=None), "4", "{}"),
    "words": (table(item="Fïlm {}"), "weight", "Fïlm {}"),
    "blanks": (table(weight=" {} "), "weight", "{}"),
}


@pytest.mark.parametrize("form", FORMS)
def test_text(tmp_path: Path, form: str) -> None:
    content, column, item = FORMS[form]
    (tmp_path / "t.csv").write_text(content, encoding="utf-8")
    source = read_source(tmp_path / "t.csv", weights=column)
    same(source.data, expected(item))
    named = (
        "column 1 × column 2 → column 3, weight column 4" if form == "without a header" else "→ rating, weight weight"
    )
    assert source.how.endswith(named)
    assert len(source.data) == np.count_nonzero(WEIGHTS)
    same(ObservedMatrix.read(tmp_path / "t.csv", weights=column), expected(item))
    assert read_source(tmp_path / "t.csv").data.weights is None  # never guessed


@pytest.mark.parametrize("form", [form for form in FORMS if form != "blanks"])  # which DuckDB does not read
@pytest.mark.parametrize("shard", [100, 4_000_000])
def test_prepared_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, shard: int) -> None:
    monkeypatch.setattr(write, "SHARD", shard)
    content, column, item = FORMS[form]
    (tmp_path / "t.csv").write_text(content, encoding="utf-8")
    manifest = prepare(tmp_path / "t.csv", tmp_path / "out", weights=column)
    found = open_prepared(tmp_path / "out", check=True)
    same(found, expected(item))
    assert manifest.weighted
    assert isinstance(found.weights, np.memmap)
    same(read_source(tmp_path / "out").data, expected(item))


def test_parquet_and_other_roles(tmp_path: Path) -> None:
    frame().rename({"rating": "weight", "weight": "n"}).select("n", "weight", "item", "user").write_parquet(
        tmp_path / "t.parquet"
    )
    source = read_source(tmp_path / "t.parquet", weights="n")
    same(source.data, expected())
    assert source.how == "Parquet, one entry a line: user × item → weight, weight n"
    prepare(tmp_path / "t.parquet", tmp_path / "out", weights="n")
    same(open_prepared(tmp_path / "out"), expected())


def test_npz(tmp_path: Path) -> None:
    named = {"rows": PAIRS[:, 0], "cols": PAIRS[:, 1], "values": VALUES, "confidence": WEIGHTS}
    np.savez(tmp_path / "t.npz", **named)
    found = read_source(tmp_path / "t.npz", weights="confidence")
    by_hand = ObservedMatrix.from_triplets(PAIRS[:, 0], PAIRS[:, 1], VALUES, weights=WEIGHTS)
    same(found.data, by_hand)
    assert found.how == "arrays rows, cols, values, confidence"
    assert read_source(tmp_path / "t.npz").data.weights is None
    with pytest.raises(ValueError, match=r"t.npz has no variable 'trust'; there are rows, cols, values, confidence"):
        read_source(tmp_path / "t.npz", weights="trust")
    np.savez(tmp_path / "m.npz", matrix=np.ones((3, 4)), confidence=np.ones(12))
    with pytest.raises(ValueError, match="weights are read only with the arrays rows, cols and values"):
        read_source(tmp_path / "m.npz", weights="confidence")


def test_where_there_are_no_weights(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(table())
    prepare(tmp_path / "t.csv", tmp_path / "out")
    np.save(tmp_path / "m.npy", np.ones((3, 4)))
    for name, kind in (("out", "prepared data"), ("m.npy", "a NumPy array")):
        with pytest.raises(ValueError, match=f"is {kind}, to which weights does not apply; leave it out"):
            read_source(tmp_path / name, weights="weight")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("1,2,3,-4", "the first is -4 at row 1, column 2. A weight must be a finite number"),
        ("1,2,3,", "line 3: '' is not a number"),
        ("1,2,3,NA", "line 3: 'NA' is not a number"),
        ("1,2,3,inf", "the first is inf at row 1, column 2. A weight must be a finite number"),
        ("1,2,3,much", "line 3: 'much' is not a number"),
    ],
)
def test_bad_weights_in_text(tmp_path: Path, line: str, words: str) -> None:
    (tmp_path / "t.csv").write_text(f"user,item,rating,weight\n0,1,2,1\n{line}\n3,1,2,1\n")
    with pytest.raises(ValueError, match=rf"t\.csv.*{re.escape(words)}"):
        read_source(tmp_path / "t.csv", weights="weight")
    with pytest.raises(ValueError, match=r"t\.csv"):
        prepare(tmp_path / "t.csv", tmp_path / "out", weights="weight")
    assert not (tmp_path / "out").exists()


def test_bad_weights_in_prepared_data(tmp_path: Path) -> None:
    frame().with_columns(weight=pl.Series(np.where(np.arange(len(PAIRS)) == 7, -2.0, 1.0))).write_parquet(
        tmp_path / "t.parquet"
    )
    i, j = PAIRS[7]
    said = f"1 of {len(PAIRS)} weights are missing, negative or infinite: the first is -2 at row {i}, column {j}. A"
    with pytest.raises(ValueError, match=re.escape(said)):
        prepare(tmp_path / "t.parquet", tmp_path / "out", weights="weight")
    frame().with_columns(weight=0).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="weights are zero, so nothing is observed"):
        prepare(tmp_path / "t.parquet", tmp_path / "out", weights="weight")
    with pytest.raises(ValueError, match="weights are zero, so nothing is observed"):
        read_source(tmp_path / "t.parquet", weights="weight")


def test_roles(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(table())
    with pytest.raises(ValueError, match="has no column 'trust'; there are user, item, rating, weight"):
        read_source(tmp_path / "t.csv", weights="trust")
    with pytest.raises(ValueError, match="column 'rating' cannot have two roles; the weights need a column"):
        read_source(tmp_path / "t.csv", values="rating", weights="rating")
    with pytest.raises(ValueError, match="layout 'dense' has no column of weights"):
        read_source(tmp_path / "t.csv", layout="dense", weights="weight")
    assert read_source(tmp_path / "t.csv", weights="rating").how.endswith("user × item → weight, weight rating")


@pytest.mark.parametrize("duplicates", ["mean", "last"])
def test_duplicates(tmp_path: Path, duplicates: Any) -> None:
    lines = "0,0,1,2\n0,1,5,1\n0,0,4,6\n1,1,3,2\n0,0,100,0\n"
    (tmp_path / "t.csv").write_text("user,item,rating,weight\n" + lines)
    prepare(tmp_path / "t.csv", tmp_path / "out", weights="weight", duplicates=duplicates)
    found = open_prepared(tmp_path / "out", check=True)
    read = read_source(tmp_path / "t.csv", weights="weight", duplicates=duplicates).data
    assert found.values.tolist() == read.values.tolist() == [3.25 if duplicates == "mean" else 4.0, 5.0, 3.0]
    assert found.weights is not None
    assert read.weights is not None
    assert found.weights.tolist() == read.weights.tolist() == [8.0 if duplicates == "mean" else 6.0, 1.0, 2.0]
    for reader in (
        lambda: read_source(tmp_path / "t.csv", weights="weight", duplicates="sum"),
        lambda: prepare(tmp_path / "t.csv", tmp_path / "other", weights="weight", duplicates="sum"),
    ):
        with pytest.raises(ValueError, match="row 0, column 0 is repeated with different weights, so its sum has none"):
            reader()


def test_weights_of_1_are_none(tmp_path: Path) -> None:
    frame().with_columns(weight=1.0).write_parquet(tmp_path / "t.parquet")
    assert read_source(tmp_path / "t.parquet", weights="weight").data.weights is None
    assert not prepare(tmp_path / "t.parquet", tmp_path / "out", weights="weight").weighted
    assert not (tmp_path / "out" / "weights.npy").exists()
    shards = json.loads((tmp_path / "out" / "manifest.json").read_text())["shards"]
    assert all(set(s) == {"first", "last", "index", "values"} for s in shards)  # older versions read it


def test_parts_of_prepared_data_stay_on_disk(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(table())
    prepare(tmp_path / "t.csv", tmp_path / "out", weights="weight")
    data = open_prepared(tmp_path / "out")
    for part in holdout(data, 0.3, 0):
        assert isinstance(part.weights, np.memmap)
        at = data.with_values(np.asarray(data.weights)).to_dense()[part.rows_of_entries(), part.index]
        np.testing.assert_array_equal(part.weights, at)


def test_damage_is_found(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(table())
    prepare(tmp_path / "t.csv", tmp_path / "out", weights="weight")
    weights = np.load(tmp_path / "out" / "weights.npy")

    def other(array: Any) -> Path:
        shutil.rmtree(tmp_path / "other", ignore_errors=True)
        shutil.copytree(tmp_path / "out", tmp_path / "other")
        np.save(tmp_path / "other" / "weights.npy", array)
        return tmp_path / "other"

    changed = weights.copy()
    changed[3] += 1
    with pytest.raises(ValueError, match=r"weights.npy is damaged between rows 1 and"):
        open_prepared(other(changed), check=True)
    with pytest.raises(ValueError, match="its arrays are not those of its manifest"):
        open_prepared(other(weights[:-1]))
    with pytest.raises(ValueError, match=r"weights.npy is damaged or missing"):
        open_prepared(other(weights.astype(np.int64)))
    negative = -weights
    folder = other(negative)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["shards"][0]["weights"] = checksum(negative)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match="has invalid columns, values or weights between rows 1 and"):
        open_prepared(folder, check=True)
    (folder / "weights.npy").unlink()
    with pytest.raises(ValueError, match=r"weights.npy is damaged or missing"):
        open_prepared(folder)


def test_a_folder_with_weights_can_be_replaced(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(table())
    prepare(tmp_path / "t.csv", tmp_path / "out", weights="weight")
    prepare(tmp_path / "t.csv", tmp_path / "out", force=True)
    assert open_prepared(tmp_path / "out", check=True).weights is None
