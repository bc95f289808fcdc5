"""A model on disk: the same answers after it is read, and a clear word for anything else."""

import builtins
import errno
import io
import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rslm
from plain import WITH_EFFECTS, plain_completion
from rslm import InductiveCompletion, ObservedMatrix, load
from rslm.estimators import persistence
from rslm.losses import Huber, Square
from rslm.storage.container import write_container


def data(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((12, 2)) @ rng.standard_normal((2, 8)) + 0.1 * rng.standard_normal((12, 8))
    X[rng.random((12, 8)) < 0.3] = np.nan
    return X


X = data()


def fitted(given=X, **options):
    return plain_completion(**{"rank": 2, "C": 10.0, "random_state": 0} | options).fit(given)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.rslm"


def there_and_back(model, path):
    assert model.save(path) is None
    return rslm.load(path)


def check_same(a, b):
    assert type(a) is type(b)
    assert a.certificate_ == b.certificate_
    assert str(a.certificate_) == str(b.certificate_)
    assert a.history_.keys() == b.history_.keys()
    for name in a.history_:
        np.testing.assert_array_equal(a.history_[name], b.history_[name])
    for name in ("outcome_", "converged_", "n_iter_", "rank_", "n_features_in_"):
        assert getattr(a, name) == getattr(b, name)
        assert type(getattr(a, name)) is type(getattr(b, name))
    for name in ("row_factors_", "col_factors_", "row_effects_", "col_effects_", "intercept_"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    new = data(5)[:4]
    np.testing.assert_array_equal(a.transform(new), b.transform(new))
    assert a.score(new) == b.score(new)  # new samples
    assert a.score(X) == b.score(X)  # the fitted ones


@pytest.mark.parametrize(
    "options", [{}, {"weighting": 0.5}, {"solver": "conjugate-gradient", "tol": 1e-4}, {"C": 0.01}, WITH_EFFECTS]
)
def test_round_trip(path, options):
    m = fitted(**options)
    back = there_and_back(m, path)
    check_same(m, back)
    assert back.get_params() == m.get_params()
    rows, cols = np.indices(X.shape).reshape(2, -1)
    np.testing.assert_array_equal(m.predict(rows, cols), back.predict(rows, cols))
    with pytest.raises(ValueError, match="positions from 0 to 11"):
        back.predict([12], [0])


def test_tall_and_wide(path):
    m = fitted(X.T)
    back = there_and_back(m, path)
    np.testing.assert_array_equal(m.transform(X.T), back.transform(X.T))


EXTREME = {
    "completion": lambda X, size: plain_completion(rank=2, C=1.0, random_state=0).fit(size * X),
    "bounds": lambda X, size: plain_completion(rank=2, C=1.0, bounds=(-9 * size, 9 * size)).fit(size * X),
    "stream": lambda X, size: plain_completion(rank=2, C=1.0, random_state=0).partial_fit(size * X),
    "inductive": lambda X, size: rslm.InductiveCompletion(rank=2, C=1.0).fit(size * X, row_features=X[:, :3]),
    "tasks": lambda X, size: rslm.MultiTaskRegressor(rank=1, C=1.0).fit(X, size * X[:, 0], tasks=np.arange(len(X)) % 2),
    "reduced rank": lambda X, size: rslm.ReducedRankRegressor(rank=1, C=1.0).fit(X, size * X[:, :2]),
    "series": lambda X, size: rslm.HankelModel(rank=2, C=1.0).fit(size * np.cos(np.arange(40.0))),
}


@pytest.mark.parametrize("size", [1e-300, 1e160, 1e300])
@pytest.mark.parametrize("kind", EXTREME)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_models_of_extreme_data(path, kind, size):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 2)) @ rng.standard_normal((2, 6))
    model = EXTREME[kind](X, size)
    model.save(path)
    loaded = rslm.load(path)
    for name in ("row_factors_", "col_factors_", "coef_", "intercept_", "signal_"):
        if hasattr(model, name):
            np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))


def test_what_could_not_be_loaded_is_not_saved(path):
    model = fitted()
    model.save(path)
    before = path.read_bytes()
    model.row_factors_ = np.full_like(model.row_factors_, np.inf)
    with pytest.raises(ValueError, match=r"the model is not saved, because .*: row_factors_ is not finite"):
        model.save(path)
    assert path.read_bytes() == before


def test_a_loaded_model_can_be_saved_and_fitted_again(path):
    m = fitted()
    back = there_and_back(there_and_back(m, path), path)
    check_same(m, back)
    back.fit(X)
    np.testing.assert_array_equal(m.row_factors_, back.row_factors_)


@pytest.mark.parametrize(
    "ids",
    [
        np.arange(12) * 10,
        np.array([f"user {k}" for k in range(12)]),
        np.array(["ü", "名", "a b", "", "'", '"', "\\", "x", "y", "z", "0", "1"]),
        np.arange(12) + 0.5,
        np.array(["2020-01-01"], "datetime64[D]") + np.arange(12),
        np.array([1, "1", 2.5, "two", *range(10, 18)], dtype=object),
        np.array([np.int64(k) if k % 2 else f"{k}" for k in range(12)], dtype=object),
    ],
    ids=["whole numbers", "text", "odd text", "fractions", "dates", "mixed", "mixed with NumPy's numbers"],
)
def test_ids(path, ids):
    whole = ObservedMatrix.from_any(X)
    given = ObservedMatrix(whole.indptr, whole.index, whole.values, whole.shape, ids, np.array(list("abcdefgh")))
    m = fitted(given)
    back = there_and_back(m, path)
    np.testing.assert_array_equal(back.predict(ids, ["c"] * 12), m.predict(ids, ["c"] * 12))
    np.testing.assert_array_equal(back.predict(ids[[4, 0]], ["h", "a"]), m.predict(ids[[4, 0]], ["h", "a"]))
    with pytest.raises(ValueError, match="Unknown row id"):
        back.predict(["nobody"], ["a"])


def test_mixed_ids_keep_their_kinds(path):
    rows = [1, "1", 2, "2"] * 3
    m = fitted(ObservedMatrix.from_ratings(rows, list("aaaabbbbcccc"), np.arange(12.0)), rank=1)
    back = there_and_back(m, path)
    np.testing.assert_array_equal(back.predict([1, "1"], ["a", "a"]), m.predict([1, "1"], ["a", "a"]))
    assert back.predict([1], ["a"]) != back.predict(["1"], ["a"])


def test_ids_that_no_file_can_hold(path):
    given = ObservedMatrix.from_ratings(["a", (1, 2)], [0, 1], [1.0, 2.0])
    m = fitted(given, rank=1)
    with pytest.raises(ValueError, match=r"row ids.*\(1, 2\)"):
        m.save(path)
    assert list(path.parent.iterdir()) == []


def test_names_of_features(path):
    table = pd.DataFrame(X, columns=[f"f{j}" for j in range(8)])
    back = there_and_back(fitted(table), path)
    assert back.feature_names_in_.tolist() == table.columns.tolist()
    assert back.feature_names_in_.dtype == object
    assert back.get_feature_names_out().tolist() == table.columns.tolist()
    back.transform(table)
    with pytest.raises(ValueError, match="feature names"):
        back.transform(table.rename(columns={"f0": "g"}))


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"random_state": np.random.default_rng(0)}, {"random_state": None}),
        ({"random_state": np.random.RandomState(0)}, {"random_state": None}),
        ({"C": np.float64(3)}, {"C": 3.0}),
        ({"C": np.float32(3)}, {"C": 3.0}),
        ({"rank": np.int64(2)}, {"rank": 2}),
        ({"loss": Square()}, {"loss": Square()}),
        ({"loss": Huber(0.5)}, {"loss": Huber(0.5)}),
    ],
    ids=["generator", "random state", "float64", "float32", "int64", "loss", "loss with a parameter"],
)
def test_parameters_that_json_does_not_know(path, options, kept):
    m = fitted(**options)
    back = there_and_back(m, path)
    np.testing.assert_array_equal(back.row_factors_, m.row_factors_)
    assert {name: back.get_params()[name] for name in kept} == kept


def test_not_certified_at_all(path):
    """A gap that is not finite survives."""
    m = fitted()
    object.__setattr__(m.certificate_, "relative_gap", float("inf"))
    assert there_and_back(m, path).certificate_.relative_gap == float("inf")


def test_no_pickle_inside(path):
    fitted(ObservedMatrix.from_ratings([1, "a"] * 3, list("xxyyzz"), np.arange(6.0)), rank=1).save(path)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        for name in archive.namelist():
            assert name.endswith(".npy")
            with archive.open(name) as member:
                version = np.lib.format.read_magic(member)
                assert version == (1, 0)
                assert not np.lib.format.read_array_header_1_0(member)[2].hasobject
    with np.load(path, allow_pickle=False) as arrays:
        header = json.loads(arrays["header"].tobytes())
    assert header["format"] == "rslm model"
    assert header["estimator"] == "MatrixCompletion"
    assert header["params"]["rank"] == 1


def test_paths(tmp_path):
    m = fitted()
    for name in ("plain", "with.npz", "with space.rslm", "ü"):
        m.save(str(tmp_path / name))
        assert (tmp_path / name).exists()  # no ending is added
        check_same(m, rslm.load(str(tmp_path / name)))


def test_others_may_read_it_as_any_new_file(path):
    """Not with the permissions of a temporary file."""
    fitted().save(path)
    path.with_name("other").touch()
    assert oct(path.stat().st_mode) == oct(path.with_name("other").stat().st_mode)


# ---- what is no model ---------------------------------------------------------------------------------------


def refused(path):
    with pytest.raises(ValueError, match=path.name) as caught:
        rslm.load(path)
    message = str(caught.value)
    assert "rslm" in message or "damaged" in message
    assert "Error" not in message  # names of Python's classes say nothing to people
    assert "Bad" not in message
    assert "allow_pickle" not in message  # nobody should be led to load such a file unsafely
    return message


def test_any_damaged_byte(path):
    """Bytes all over the file, each in turn: an error that names the file."""
    fitted().save(path)
    whole = path.read_bytes()
    step = max(1, len(whole) // 400)
    for at in [*range(0, len(whole), step), *range(len(whole) - 1600, len(whole), 7)]:
        for flip in (0x01, 0xFF):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :])
            with pytest.raises(ValueError, match=path.name):
                rslm.load(path)


@pytest.mark.parametrize("part", [0.0, 0.01, 0.3, 0.9, 0.999])
def test_truncated(path, part):
    fitted().save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(part * len(whole))])
    refused(path)


def test_foreign_archives(path):
    with path.open("wb") as file:
        np.savez(file, a=np.ones(3))
    assert "not a model of rslm" in refused(path)
    with path.open("wb") as file:
        np.savez(file, header=np.frombuffer(b'{"format": "other"}', np.uint8))
    assert "not a model of rslm" in refused(path)
    with path.open("wb") as file:
        np.savez(file, header=np.frombuffer(b"[1, 2", np.uint8))
    refused(path)
    with path.open("wb") as file:
        np.savez(file, header=np.array([{"format": "rslm model"}], dtype=object))  # a pickle
    refused(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")
    refused(path)


@pytest.mark.parametrize("content", [b"", b"hello\n" * 50, b"\x80\x04]\x94.", np.random.default_rng(0).bytes(500)])
def test_other_files(path, content):
    path.write_bytes(content)
    refused(path)


def test_an_array_of_numpy(path):
    with path.open("wb") as file:
        np.save(file, np.ones((3, 3)))
    refused(path)


def test_missing_file(path):
    with pytest.raises(FileNotFoundError, match=path.name):
        rslm.load(path)


def test_a_folder(path):
    path.mkdir()
    with pytest.raises((ValueError, OSError), match=path.name):
        rslm.load(path)


def test_no_permission_is_no_damage(path, monkeypatch):
    fitted().save(path)

    def denied(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    for module in (builtins, io):  # the superuser, who may run the tests, is never denied anything
        monkeypatch.setattr(module, "open", denied)
    with pytest.raises(PermissionError, match=path.name):
        rslm.load(path)
    monkeypatch.undo()


def rewritten(path, change, *, checked=True):
    """Save a model, change its header, write it again; with a checksum that fits, if it is to be found out later."""
    fitted().save(path)
    with np.load(path) as file:
        arrays = dict(file)
    header = json.loads(arrays.pop("header").tobytes())
    change(header, arrays)
    if checked:
        write_container(path, persistence.MODEL, header, arrays)
        return
    with path.open("wb") as out:
        np.savez(out, header=np.frombuffer(json.dumps(header).encode(), np.uint8), **arrays)


def test_newer_version(path):
    rewritten(path, lambda header, _: header.update(version=99, library="9.9"))
    message = refused(path)
    assert "version 99" in message
    assert "9.9" in message


@pytest.mark.parametrize(
    "change",
    [
        lambda header, _: header.update(estimator="Unheard"),
        lambda header, _: header["params"].update(unheard=1),
        lambda header, _: header.pop("params"),
        lambda header, _: header["facts"].pop("certificate"),
        lambda header, _: header["facts"]["certificate"].pop("primal"),
        lambda header, _: header["facts"].update(certificate=3),
        lambda header, _: header.update(facts=None),
        lambda _, arrays: arrays.pop("row_factors_"),
        lambda _, arrays: arrays.pop("subspace"),
        lambda header, _: header.update(estimator=["list"]),
        lambda header, _: header["params"].update(n_threads="all"),
        lambda header, _: header["params"].update(n_threads=2**70),
        lambda header, _: header["params"].update(loss="love"),
        lambda header, _: header["params"].update(max_time={}),
        lambda header, _: header["facts"].update(weighting=1e300),
        lambda header, _: header["facts"].update(n_features_in_=9),
        lambda header, _: header["facts"].update(n_iter_=None),
        lambda header, _: header["facts"].update(outcome_="splendid"),
        lambda header, _: header["facts"].update(classes=[0, 1]),
        lambda header, _: header["facts"].update(mean_count=float("nan")),
        lambda header, _: header["facts"].update(C=-1.0),
        lambda header, _: header["facts"]["certificate"].update(tol="small"),
        lambda header, _: header["facts"]["certificate"].update(stationary=2),
        lambda _, arrays: arrays.update(row_factors_=arrays["row_factors_"].astype(complex)),
        lambda _, arrays: arrays.update(row_factors_=arrays["row_factors_"].astype(np.float32)),
        lambda _, arrays: arrays.update(row_factors_=np.full_like(arrays["row_factors_"], np.nan)),
        lambda _, arrays: arrays.update(col_factors_=np.inf * arrays["col_factors_"]),
        lambda _, arrays: arrays.update(col_factors_=arrays["col_factors_"][:, :, None]),
        lambda _, arrays: arrays.update(subspace=arrays["subspace"].T),
        lambda _, arrays: arrays.update(seen_rows=arrays["seen_rows"] + 12),
        lambda _, arrays: arrays.update(seen_values=arrays["seen_values"][:-1]),
        lambda _, arrays: arrays.update(history_seconds=arrays["history_seconds"][:-1]),
        lambda _, arrays: arrays.update(row_ids=np.arange(3)),
        lambda _, arrays: arrays.update(row_ids_json=np.frombuffer(b"{}", np.uint8)),
        lambda _, arrays: arrays.update(known_indptr=np.arange(13), known_index=np.full(12, 8)),
        lambda _, arrays: arrays.update(known_indptr=np.arange(13)[::-1], known_index=np.zeros(12, int)),
        lambda _, arrays: arrays.update(feature_names=np.array(["a", "b"])),
    ],
)
def test_parts_that_are_missing_or_wrong(path, change):
    rewritten(path, change)
    refused(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda header, _: header["facts"].update(outcome_="certified"),
        lambda _, arrays: arrays.update(row_factors_=np.full_like(arrays["row_factors_"], np.nan)),
        lambda _, arrays: arrays.update(row_factors_=arrays["row_factors_"][0]),
        lambda _, arrays: arrays.update(more=np.ones(3)),
        lambda header, _: None,  # the checksum alone is missing
    ],
)
def test_edited_by_hand(path, change):
    rewritten(path, change, checked=False)
    assert "has been changed" in refused(path)


def test_a_file_that_would_grow_in_memory(path):
    """Models are not compressed; what is, may be a thousand times as large as the file."""
    fitted().save(path)
    with np.load(path) as file:
        arrays = dict(file)
    with path.open("wb") as out:
        np.savez_compressed(out, **arrays, bomb=np.zeros(10_000_000))
    assert path.stat().st_size < 200_000
    refused(path)


# ---- writing fails ------------------------------------------------------------------------------------------


def test_a_failing_save_leaves_the_old_file(path, monkeypatch):
    m = fitted()
    m.save(path)
    before = path.read_bytes()

    def full(file, **_):
        file.write(b"half of it")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="No space left"):
        fitted(C=1.0).save(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]
    check_same(m, rslm.load(path))


def test_a_failing_rename_leaves_the_old_file(path, monkeypatch):
    m = fitted()
    m.save(path)
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("busy")))
    with pytest.raises(OSError, match="busy"):
        fitted(C=1.0).save(path)
    assert list(path.parent.iterdir()) == [path]
    check_same(m, rslm.load(path))


def test_interrupted_while_saving(path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fitted().save(path)
    assert list(path.parent.iterdir()) == []


def test_parameters_that_no_file_can_hold(path):
    m = fitted()
    m.verbose = object()
    with pytest.raises(ValueError, match=r"verbose=.*cannot be written"):
        m.save(path)
    assert list(path.parent.iterdir()) == []


def test_no_such_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        fitted().save(tmp_path / "nowhere" / "model")


def test_a_file_where_a_folder_is_needed(path):
    path.write_text("file")
    with pytest.raises((NotADirectoryError, FileNotFoundError), match="does not exist"):
        fitted().save(path / "model")
    assert path.read_text() == "file"


def test_a_link_leads_to_the_file(path):
    link = path.with_name("link")
    link.symlink_to(path)
    fitted().save(link)
    assert link.is_symlink()
    assert path.is_file()
    rslm.load(link)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names here")
def test_what_is_no_file_is_not_replaced(path):
    os.mkfifo(path)
    with pytest.raises(OSError, match="not a regular file"):
        fitted().save(path)
    assert path.is_fifo()


def test_a_disk_that_is_full_when_the_file_is_closed(path, monkeypatch):
    """What is buffered is written last; nothing is left behind, and the message names the file."""
    fitted().save(path)
    before = path.read_bytes()

    class Closing:
        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self.file

        def __exit__(self, *_):
            self.file.close()
            raise OSError(errno.ENOSPC, "No space left on device")

    model = fitted()
    monkeypatch.setattr("builtins.open", lambda handle, mode, **options: Closing(os.fdopen(handle, mode, **options)))
    with pytest.raises(OSError, match=rf"No space left on device; nothing was written: '.*{path.name}'"):
        model.save(path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may write anywhere")
def test_unwritable_folder(path):
    path.parent.chmod(0o500)
    try:
        with pytest.raises(PermissionError):
            fitted().save(path)
    finally:
        path.parent.chmod(0o700)
    assert list(path.parent.iterdir()) == []


def test_coefficients_of_a_larger_rank_than_the_data_are_saved(tmp_path):
    """Features may be more than rows."""
    rng = np.random.default_rng(0)
    R, K = rng.standard_normal((3, 6)), rng.standard_normal((8, 5))
    model = InductiveCompletion(5, 10.0, completion=False).fit(
        R @ rng.standard_normal((6, 5)) @ K.T, row_features=R, column_features=K
    )
    model.rank_ = 5  # as a fit that was stopped early can have it
    model.save(tmp_path / "model.rslm")
    assert load(tmp_path / "model.rslm").rank_ == 5


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_arrays_of_numpy_are_no_model(tmp_path, write):
    write(tmp_path / "some.npz", a=np.arange(3), b=np.ones(2))
    with pytest.raises(ValueError, match=r"some\.npz' is not a model of rslm"):
        rslm.load(tmp_path / "some.npz")
