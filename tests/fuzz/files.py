"""Damaged files: small ones of every format that the library reads, with bytes, lines or parts changed.

Each must be read, and then be of use, or be refused by one line that says what is wrong. Models, checkpoints and
prepared folders carry checksums; so that more than these is tried out, parts of them are changed and sealed again.
"""

from __future__ import annotations

import bz2
import copy
import gzip
import io
import json
import lzma
import random
import tarfile
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import scipy.io
from scipy import sparse

import rslm
from rslm import Problem, datasets, solve
from rslm.checkpoint.file import CHECKPOINT
from rslm.data.files import read_pairs, read_source, read_table
from rslm.data.prepared.manifest import MANIFEST, checksum
from rslm.data.prepared.opened import open_prepared
from rslm.data.prepared.write import prepare
from rslm.estimators.completion import Completion
from rslm.estimators.persistence import MODEL
from rslm.losses import Absolute, Huber, Square
from rslm.measurements import Entries
from rslm.storage.container import read_container, write_container
from rslm.structures import Box

EXPECTED = (ValueError, TypeError, MemoryError)  # and any OSError
HUGE = (b"99999999999999999999", b"-1", b"2147483648", b"4294967297", b"1e400", b"nan", b"inf", b"0", b"1e9")
PIECES = (*HUGE, b"\0", b'"', b"\\", b'\\"', b"\n", b"\r", b",", b";", b"\t", b" ", b"::", b"%", b"\xff\xfe", b"\xe9")
WRONG = (None, True, -1, 0, 2**70, 1e308, float("nan"), float("inf"), "", "text", [], [1, [2]], {}, {"a": None}, "2")


def case(seed: int) -> None:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="rslm-fuzz-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read = rng.choices(list(FORMATS), list(FORMATS.values()))[0](rng, Path(folder))
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UserWarning)  # what data are like, told to the user
        try:
            read()
        except Exception as error:
            check_refusal(error, folder)


Read = Callable[[], None]  # what a case does with a damaged file


class UnusableError(Exception):
    """Something was loaded, and is then of no use."""


def check_refusal(error: Exception, folder: str) -> None:
    if type(error) not in EXPECTED and not isinstance(error, OSError):
        raise error
    said = str(error)
    if len(said.split()) < 3 or "\n" in said or folder not in said:
        raise UnusableError(f"this is no sentence: {said!r}") from error


def usable(use: Callable[[], Any]) -> None:
    """What was loaded must work; an error comes too late."""
    try:
        use()
    except Exception as error:
        raise UnusableError(f"{type(error).__name__}: {error}") from error


# ---- damage ----------------------------------------------------------------------------------------------------


def damaged(content: bytes, rng: random.Random) -> bytes:
    text = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at, way = rng.randrange(len(text) + 1), rng.randrange(9)
        if way == 0:
            text[at : at + 1] = bytes([rng.randrange(256)])
        elif way == 1 and at < len(text):
            text[at] ^= 1 << rng.randrange(8)
        elif way == 2:
            del text[at : at + rng.choice((1, 2, 4, 16, 200))]
        elif way == 3:
            text[at:at] = bytes(text[rng.randrange(len(text) + 1) :][: rng.choice((1, 4, 16, 100))])
        elif way == 4:
            text[at:at] = rng.choice(PIECES)
        elif way == 5:
            text[at : at + 4] = rng.choice((b"\0\0\0\0", b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\1\0\0\0"))
        elif way == 6:
            number = next((k for k in range(at, len(text)) if chr(text[k]).isdigit()), None)
            if number is not None:
                text[number : number + 1] = rng.choice(HUGE)
        elif way == 7:
            lines = text.split(b"\n")
            rng.shuffle(lines) if rng.random() < 0.3 else lines.pop(rng.randrange(len(lines)))
            text = bytearray(b"\n".join(lines))
        elif rng.random() < 0.3:
            del text[at:]
    return bytes(text)


def damaged_array(array: np.ndarray, rng: random.Random) -> np.ndarray:
    try:
        return _damaged_array(array, rng)
    except (ValueError, TypeError):  # of this dtype there is no other
        return array[..., None]


def _damaged_array(array: np.ndarray, rng: random.Random) -> np.ndarray:
    way = rng.randrange(9)
    if way == 0 and array.dtype.kind in "fiu" and array.size:
        array = array.copy()
        odd = (np.nan, np.inf, 1e300, -1.0) if array.dtype.kind == "f" else (127, 0)
        array.flat[rng.randrange(array.size)] = rng.choice(odd)
    elif way == 1:
        array = array[:-1] if array.ndim and len(array) else array[None]
    elif way == 2:
        array = array.T
    elif way == 3:
        array = array.astype(rng.choice(("f4", "i8", "c16", "U5", "?", "S3", "M8[s]")))
    elif way == 4:
        array = array.reshape(-1)
    elif way == 5:
        array = array[..., None]
    elif way == 6:
        array = np.zeros(rng.choice(((), (0,), (0, 0), (3, 2))))
    elif way == 7 and array.ndim:
        array = np.concatenate([array, array])
    else:
        content = damaged(array.tobytes(), rng)
        if len(content) == array.nbytes and array.dtype.kind != "O":
            array = np.frombuffer(content, dtype=array.dtype).reshape(array.shape)
    return array


def damaged_facts(facts: Any, rng: random.Random) -> Any:
    """One value of nested dicts and lists is another, or missing."""
    places = list(_places(facts))
    if not places:
        return facts
    holder, key = rng.choice(places)
    if rng.random() < 0.2:
        del holder[key]
    else:
        holder[key] = copy.deepcopy(rng.choice(WRONG))  # it may be damaged further
    return facts


def _places(facts: Any) -> Any:
    items = facts.items() if isinstance(facts, dict) else enumerate(facts) if isinstance(facts, list) else ()
    for key, value in items:
        yield facts, key
        yield from _places(value)


def damaged_sealed(path: Path, kind: Any, rng: random.Random) -> None:
    """Change a part, and seal the file again."""
    header, arrays = read_container(path, kind)
    header = {k: v for k, v in header.items() if k not in ("format", "version", "library")}
    for _ in range(rng.choice((1, 1, 2))):
        if rng.random() < 0.5 and arrays:
            name = rng.choice(sorted(arrays))
            if rng.random() < 0.15:
                del arrays[name]
            else:
                arrays[name] = damaged_array(arrays[name], rng)
        else:
            header = damaged_facts(header, rng)
    write_container(path, kind, header, arrays)


# ---- text ------------------------------------------------------------------------------------------------------

ENTRIES = [(f"user {k % 6}", f"film {k % 7}", k % 5 + 0.5) for k in range(30)]


def text_table(rng: random.Random) -> tuple[bytes, dict[str, Any]]:
    delimiter = rng.choice((",", ";", "\t", "|", "::", " "))
    quote = rng.choice(("", '"'))
    name = rng.choice(("{}", "{}", "Jörg {}", '{}"', "\\{}", "00{}", "{}\n")) if quote else rng.choice(("{}", "é{}"))
    escaped = rng.choice(("\\", '"')) + '"'
    lines = []
    for user, film, value in ENTRIES:
        if rng.random() < 0.3 or delimiter == " ":
            user = user[5:]
        cells = [name.format(user).replace('"', escaped), film.replace(" ", "_"), value]
        lines.append(delimiter.join(f"{quote}{cell}{quote}" for cell in cells))
    if rng.random() < 0.8:
        lines.insert(0, delimiter.join(("user", "item", "rating")))
    text = rng.choice(("\n", "\n", "\r\n", "\r")).join(lines) + "\n"
    encoding = rng.choice(("utf-8", "utf-8", "utf-8-sig", "latin-1", "cp1252", "utf-16", "utf-32"))
    told = {"encoding": encoding} if rng.random() < 0.2 else {}
    return text.encode(encoding), told


def matrix_text(rng: random.Random) -> tuple[bytes, dict[str, Any]]:
    delimiter = rng.choice((",", ";", "\t", " "))
    comma = delimiter == ";" and rng.random() < 0.5
    rows = [[f"{(i * j) % 7 + 0.25}".replace(".", "," if comma else ".") for j in range(5)] for i in range(8)]
    lines = [delimiter.join(row) for row in rows]
    if rng.random() < 0.5:
        lines.insert(0, delimiter.join("abcde"))
    return ("\n".join(lines) + "\n").encode(), {}


def check_data(data: Any) -> None:
    matrix = data.to_csr()
    matrix.check_format(full_check=True)
    assert np.isfinite(data.values).all()
    assert data.indptr[-1] == len(data.index) == len(data.values) > 0
    for ids, count in ((data.row_ids, data.shape[0]), (data.col_ids, data.shape[1])):
        assert ids is None or len(ids) == count


def text(rng: random.Random, folder: Path) -> Read:
    content, told = rng.choice((text_table, text_table, matrix_text))(rng)
    content = damaged(content, rng)
    if rng.random() < 0.1:
        content = damaged(gzip.compress(content), rng)
    path = folder / "table.csv"
    path.write_bytes(content)
    way, again = rng.randrange(6), rng.choice(("last", "error", "mean"))

    def read() -> None:
        if way == 0:
            y = read_table(path, **told).numbers(None)[1]
            usable(lambda: y.sum())
        elif way == 1:
            read_pairs(path, **told)
        elif way == 2:
            prepare(path, folder / "out", duplicates="last", **told)
            usable(lambda: check_data(open_prepared(folder / "out", check=True)))
        else:
            source = read_source(path, duplicates=again, **told)
            usable(lambda: check_data(source.data))

    return read


# ---- matrices in binary formats, and MatrixMarket ----------------------------------------------------------------


def saved(write: Callable[[Any], Any]) -> bytes:
    out = io.BytesIO()
    write(out)
    return out.getvalue()


@cache
def binary_files(kind: str) -> list[bytes]:
    dense = np.round(np.random.default_rng(0).random((6, 5)), 3)
    X = sparse.random_array((6, 5), density=0.5, random_state=np.random.default_rng(0))
    if kind == ".mtx":
        square = sparse.random_array((5, 5), density=0.6, random_state=np.random.default_rng(1))
        whole = sparse.coo_array((np.arange(1, 16), X.nonzero()), shape=(6, 5))
        files = [saved(lambda f, x=x: scipy.io.mmwrite(f, x)) for x in (X, dense, whole, square + square.T)]
        return [*files, gzip.compress(files[0])]
    if kind == ".npz":
        forms = [
            sparse.csr_array(X),
            sparse.csc_array(X),
            sparse.coo_array(X),
            sparse.bsr_array(X),
            sparse.dia_array(X),
        ]
        files = [saved(lambda f, x=x, c=c: sparse.save_npz(f, x, compressed=c)) for x in forms for c in (True, False)]
        i, j = X.nonzero()
        files += [saved(lambda f: np.savez(f, X=dense)), saved(lambda f: np.savez_compressed(f, X=dense))]
        return [*files, saved(lambda f: np.savez(f, rows=i, cols=j, values=X.data))]
    if kind == ".mat":
        more = {"X": dense, "name": "text", "s": {"a": 1.0}, "cell": np.array([dense, "a"], dtype=object)}
        files = [saved(lambda f, c=c: scipy.io.savemat(f, more, do_compression=c)) for c in (True, False)]
        files += [
            saved(lambda f, c=c: scipy.io.savemat(f, {"X": sparse.csc_array(X)}, do_compression=c)) for c in (0, 1)
        ]
        files.append(saved(lambda f: scipy.io.savemat(f, {"X": dense.astype(np.uint8)})))
        old = [{"X": dense}, {"X": sparse.csc_array(X)}]
        return files + [saved(lambda f, x=x: scipy.io.savemat(f, x, format="4")) for x in old]
    frame = pl.DataFrame(ENTRIES, schema=["user", "item", "rating"], orient="row").unique(["user", "item"])
    wide = pl.DataFrame({f"c{k}": dense[:, k] for k in range(5)})
    return [
        saved(lambda f, x=x, c=c: x.write_parquet(f, compression=c))
        for x in (frame, wide)
        for c in ("zstd", "snappy", "uncompressed")
    ]


def resealed_npz(content: bytes, rng: random.Random) -> bytes:
    """With an array that is another, and checksums that are right."""
    with np.load(io.BytesIO(content)) as file:
        arrays = {key: file[key] for key in file.files}
    name = rng.choice(sorted(arrays))
    arrays[name] = damaged_array(arrays[name], rng)
    return saved(lambda f: np.savez(f, **arrays))


def binary(kind: str) -> Callable[[random.Random, Path], Read]:
    def make(rng: random.Random, folder: Path) -> Read:
        content = rng.choice(binary_files(kind))
        again = kind == ".npz" and rng.random() < 0.6
        path = folder / f"matrix{kind}{'.gz' if content[:2] == gzip.compress(b'')[:2] else ''}"
        path.write_bytes(resealed_npz(content, rng) if again else damaged(content, rng))
        prepares = kind == ".parquet" and rng.random() < 0.3

        def read() -> None:
            if prepares:
                prepare(path, folder / "out", duplicates="last")
            data = open_prepared(folder / "out", check=True) if prepares else read_source(path).data
            usable(lambda: check_data(data))

        return read

    return make


# ---- models --------------------------------------------------------------------------------------------------------


def ratings_array() -> np.ndarray:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 2)) @ rng.standard_normal((2, 8)) + 0.1 * rng.standard_normal((12, 8))
    X[rng.random(X.shape) < 0.4] = np.nan
    return X


def tasks_data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    made = datasets.make_tasks(5, 4, 8, 2, random_state=0)
    return made.X, made.y, made.tasks


@cache
def models() -> list[bytes]:
    X, (Z, y, tasks) = ratings_array(), tasks_data()
    given = {"rank": 2, "C": 10.0, "random_state": 0, "max_iter": 20}
    plain = given | {"effects": None, "weighting": 0.0}
    signs = np.where(np.isnan(X), np.nan, np.sign(X))
    named = rslm.ObservedMatrix.from_ratings(
        [u for u, _, _ in ENTRIES], [f for _, f, _ in ENTRIES], [v for *_, v in ENTRIES]
    )
    rows, cols = np.random.default_rng(1).random((12, 3)), np.random.default_rng(2).random((8, 3))
    fitted = [
        rslm.MatrixCompletion(**plain).fit(X),
        rslm.MatrixCompletion(**given).fit(X),
        rslm.MatrixCompletion(**given, effects=(2.0, None), weighting=0.5).fit(named),
        rslm.MatrixCompletion(**plain, loss="huber").fit(X),
        rslm.MatrixCompletion(**plain, loss="logistic").fit(signs),
        rslm.MatrixCompletion(**plain, bounds=(-3.0, 3.0)).fit(X),
        rslm.MatrixCompletion(**plain).partial_fit(X),
        rslm.MatrixCompletion(random_state=0, max_iter=20).fit(X),
        rslm.InductiveCompletion(**given).fit(X, row_features=rows, column_features=cols),
        rslm.ImplicitCompletion(2, random_state=0, max_iter=20).fit(np.abs(np.nan_to_num(X))),
        rslm.MultiTaskRegressor(2, 1.0).fit(Z, y, tasks=tasks),
        rslm.MultiTaskClassifier(2, 1.0).fit(Z, np.arange(len(y)) % 2, tasks=tasks),
        rslm.MultiTaskClassifier(2, 1.0).fit(Z, np.arange(len(y)) % 3),
        rslm.ReducedRankRegressor(2, 1.0).fit(Z, np.column_stack([y, -y, 2 * y])),
        rslm.HankelModel(2).fit(datasets.make_series(60, random_state=0).y),
    ]
    files = []
    with tempfile.TemporaryDirectory() as folder:
        for model in fitted:
            path = Path(folder) / "model.rslm"
            if isinstance(model, Completion) and model.row_ids_ is not None:
                model.save(path, known=named)
            else:
                model.save(path)
            files.append(path.read_bytes())
    return files


def use_model(model: Any, path: Path) -> None:
    X, Z = ratings_array(), tasks_data()[0]
    assert isinstance(repr(model), str)
    assert model.certificate_ is None or isinstance(model.certificate_.verdict, str)
    assert isinstance(model.outcome_, str)
    assert isinstance(model.n_iter_, int)
    if isinstance(model, rslm.InductiveCompletion):
        found = model.predict(np.zeros(1, int), np.zeros(1, int))
    elif isinstance(model, Completion):
        named = [model.row_ids_, model.col_ids_]
        if any(ids is not None and len(set(ids.tolist())) < len(ids) for ids in named):
            return  # as a fit may have them: they do not tell one position
        row, col = ([0] if ids is None else ids[:1] for ids in named)
        found = model.predict(row, col)
        model.recommend(row, 3)
        if len(model.col_factors_) == X.shape[1] and named == [None, None]:
            signs = np.where(np.isnan(X), np.nan, np.sign(X))
            model.transform(signs if model.classes_ is not None else X)
    elif isinstance(model, rslm.ImplicitCompletion):
        found = model.predict([0], [0])
        model.recommend([0], 3)
        model.explain(0, 0)
        model.similar_items([0], 2)
    elif isinstance(model, rslm.HankelModel):
        found = np.concatenate([model.forecast(3), model.signal_[:3]])
    elif isinstance(model, rslm.ReducedRankRegressor):
        found = model.predict(Z)
    else:
        labels = None if getattr(model, "_by_pairs", False) else model.tasks_
        if labels is not None and len(set(labels.tolist())) < len(labels):
            return
        found = model.predict(Z, None if labels is None else labels[:1])
    assert np.isfinite(np.asarray(found, dtype=float)).all()
    model.save(path)


def model(rng: random.Random, folder: Path) -> Read:
    path = folder / "model.rslm"
    content = rng.choice(models())
    if rng.random() < 0.8:
        path.write_bytes(content)
        damaged_sealed(path, MODEL, rng)
    else:
        path.write_bytes(damaged(content, rng))

    def read() -> None:
        found = rslm.load(path)
        usable(lambda: use_model(found, path))

    return read


# ---- prepared folders ----------------------------------------------------------------------------------------------


@cache
def prepared_files() -> list[dict[str, bytes]]:
    found = []
    for lines in (
        "".join(f"{k % 6},{k % 7},{k % 5 + 0.5}\n" for k in range(30)),
        "".join(f"u{k % 6},f{k % 7},{k % 5 + 0.1}\n" for k in range(30)),
    ):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "t.csv").write_text("user,item,rating\n" + lines)
            prepare(Path(folder) / "t.csv", Path(folder) / "out")
            found.append({p.name: p.read_bytes() for p in (Path(folder) / "out").iterdir()})
    return found


def prepared(rng: random.Random, folder: Path) -> Read:
    files = dict(rng.choice(prepared_files()))
    again = rng.random() < 0.6
    name = rng.choice(sorted(files))
    if name == MANIFEST and again:
        files[name] = json.dumps(damaged_facts(json.loads(files[name]), rng)).encode()
    elif name.endswith(".npy") and again:
        array = damaged_array(np.load(io.BytesIO(files[name])), rng)
        files[name] = saved(lambda f: np.save(f, array, allow_pickle=False)) if array.dtype != object else b""
    elif rng.random() < 0.1:
        del files[name]
    else:
        files[name] = damaged(files[name], rng)
    if again and name != MANIFEST:
        files[MANIFEST] = resealed_manifest(files)
    for other, content in files.items():
        (folder / other).write_bytes(content)

    def read() -> None:
        data = open_prepared(folder, check=True)
        usable(lambda: check_data(data))

    return read


def resealed_manifest(files: dict[str, bytes]) -> bytes:
    """With the checksums that the files have now."""
    manifest = json.loads(files[MANIFEST])
    try:
        arrays = {name: np.load(io.BytesIO(files[f"{name}.npy"])) for name in ("indptr", "index", "values")}
        manifest["indptr"] = checksum(arrays["indptr"])
        manifest["entries"] = len(arrays["values"])
        for shard in manifest["shards"]:
            at = slice(int(arrays["indptr"][shard["first"]]), int(arrays["indptr"][shard["last"]]))
            shard |= {name: checksum(arrays[name][at]) for name in ("index", "values")}
        sides = ("row", "col")
        manifest["ids"] = [zlib.crc32(files.get(f"{s}_ids.npy") or files[f"{s}_ids.json"]) for s in sides]
    except (ValueError, TypeError, KeyError, EOFError, IndexError, OverflowError):
        pass  # then some are wrong
    return json.dumps(manifest).encode()


# ---- checkpoints -----------------------------------------------------------------------------------------------------


def fits() -> list[Callable[..., Any]]:
    Y = ratings_array()
    problems = [
        (Problem(Square(), Entries(Y), C=10.0), {}),
        (Problem(Square(), Entries(Y), C=10.0), {"solver": "conjugate-gradient"}),
        (Problem(Huber(0.5), Entries(Y), C=10.0), {}),
        (Problem(Absolute(), Entries(Y), C=1.0), {"tol": 1e-2}),
        (Problem(Square(), Entries(Y), Box(-2.0, 2.0), C=1.0), {"tol": 1e-2}),
    ]
    return [
        lambda p=p, o=o, **more: solve(p, 2, **{"random_state": 0, "n_threads": 1, "max_time": 2.0} | o | more)
        for p, o in problems
    ]


@cache
def checkpoints() -> list[bytes]:
    files = []
    with tempfile.TemporaryDirectory() as folder:
        for k, fit in enumerate(fits()):
            for limit in (2, 6, 500):
                path = Path(folder) / f"{k}.{limit}"
                fit(max_iter=limit, checkpoint=path)
                files.append(path.read_bytes())
    return files


def checkpoint(rng: random.Random, folder: Path) -> Read:
    path = folder / "fit.checkpoint"
    which = rng.randrange(len(checkpoints()))
    path.write_bytes(checkpoints()[which])
    if rng.random() < 0.8:
        damaged_sealed(path, CHECKPOINT, rng)
    else:
        path.write_bytes(damaged(path.read_bytes(), rng))

    def read() -> None:
        found = fits()[which // 3](max_iter=30, checkpoint=path)
        usable(lambda: check_answer(found))

    return read


def check_answer(found: Any) -> None:
    assert np.isfinite(found.U).all()
    assert np.isfinite(found.value)
    assert all(len(v) == len(found.history["seconds"]) for v in found.history.values())


# ---- published data --------------------------------------------------------------------------------------------------

LINES = {
    "u.data": "{}\t{}\t{:.0f}\t881250949\n",
    "ratings.dat": "{}::{}::{:.0f}::978300760\n",
    "ratings.csv": "{},{},{:.1f},1112486027\n",
}


@cache
def published(name: str) -> bytes:
    entries = [(k % 6 + 1, k % 7 + 1, k % 5 + 1) for k in range(30)]
    if name in LINES:
        header = "userId,movieId,rating,timestamp\n" if name.endswith("csv") else ""
        return (header + "".join(LINES[name].format(*entry) for entry in entries)).encode()
    if name == "combined_data_1.txt":
        return b"1:\n5,3,2005-09-06\n6,5,2005-05-13\n2:\n5,4,2005-10-19\n7,1,2005-10-19\n"
    if name == "school.mat":
        made = datasets.make_tasks(4, 3, 5, 2, random_state=0)
        X, y = np.empty((1, 4), dtype=object), np.empty((1, 4), dtype=object)
        for t in range(4):
            X[0, t], y[0, t] = made.X[made.tasks == t], made.y[made.tasks == t][:, None]
        return saved(lambda f: scipy.io.savemat(f, {"X": X, "Y": y}))
    names = ["subject#", "age", "motor_UPDRS", "total_UPDRS", "NHR"]
    lines = [",".join(names), *(f"{k % 3},{50 + k},{k * 0.5},{k * 0.7},{k / 9}" for k in range(12))]
    return ("\n".join(lines) + "\n").encode()


def packed(name: str, content: bytes, rng: random.Random) -> tuple[str, bytes]:
    way = rng.choice(("", "", ".zip", ".tar", ".tar.gz", ".gz", ".bz2", ".xz"))
    simple = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
    if way in simple:
        return name + way, simple[way](content)
    if way == ".zip":
        return "a.zip", saved(lambda f: _zip(f, name, content))
    if way:
        return "a" + way, saved(lambda f: _tar(f, name, content, "w:gz" if way.endswith("gz") else "w"))
    return name, content


def _zip(file: Any, name: str, content: bytes) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)


def _tar(file: Any, name: str, content: bytes, mode: str) -> None:
    with tarfile.open(fileobj=file, mode=mode) as archive:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))


def dataset(rng: random.Random, folder: Path) -> Read:
    name = rng.choice((*LINES, "combined_data_1.txt", "school.mat", "parkinsons_updrs.data"))
    content = published(name)
    if rng.random() < 0.5:
        content = damaged(content, rng)
        called, content = packed(name, content, rng)
    else:
        called, content = packed(name, content, rng)
        content = damaged(content, rng)
    path = folder / called
    path.write_bytes(content)

    def read() -> None:
        if name in LINES:
            which = {"u.data": "100k", "ratings.dat": "1m", "ratings.csv": "20m"}[name]
            data = datasets.load_movielens(which, path)
            usable(lambda: check_data(data))
        elif name.startswith("combined"):
            ratings = datasets.load_netflix(path)
            usable(lambda: check_data(ratings))
        else:
            load = datasets.load_school if name.startswith("school") else datasets.load_parkinsons
            rows = load(path)
            usable(lambda: check_rows(rows))

    return read


def check_rows(rows: Any) -> None:
    assert len(rows.X) == len(rows.y) == len(rows.tasks) > 0
    assert np.isfinite(rows.X).all()
    assert np.isfinite(rows.y).all()


FORMATS: dict[Callable[[random.Random, Path], Read], int] = {  # and how often
    text: 8,
    binary(".mtx"): 3,
    binary(".npz"): 4,
    binary(".mat"): 4,
    binary(".parquet"): 1,  # takes longer, as a process is started for each
    model: 8,
    prepared: 4,
    checkpoint: 4,
    dataset: 4,
}
