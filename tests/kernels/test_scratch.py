"""Arrays as long as the data lie where the data lie."""

import errno
import os
import tempfile

import numpy as np
import pytest

from rslm.kernels import Columns
from rslm.kernels.scratch import scratch_like


@pytest.fixture(params=["memory", "disk"])
def where(request):
    return request.param


def stored(tmp_path, array, where):
    if where == "memory":
        return array
    np.save(tmp_path / "a.npy", array)
    return np.load(tmp_path / "a.npy", mmap_mode="r")


def test_room_is_where_the_data_are(tmp_path, where):
    data = stored(tmp_path, np.arange(100, dtype=np.float32), where)
    before = sorted(tmp_path.iterdir())
    for like in (data, np.asarray(data), np.ascontiguousarray(data), data[10:]):
        scratch = scratch_like(like, np.float64)
        assert isinstance(scratch, np.memmap) == (where == "disk")
        assert (scratch.shape, scratch.dtype) == (like.shape, np.float64)
        scratch[:] = like
        np.testing.assert_array_equal(scratch, like)
        again = scratch_like(scratch, length=7)
        assert isinstance(again, np.memmap) == (where == "disk")
        assert (len(again), again.dtype) == (7, np.float64)
    assert sorted(tmp_path.iterdir()) == before  # the files have no names
    assert len(scratch_like(data[:0])) == 0


def test_a_folder_that_cannot_be_written_to(tmp_path, monkeypatch):
    data = stored(tmp_path, np.arange(10.0), "disk")
    make = tempfile.mkstemp

    def refuse(dir=None, prefix=None):
        if dir is not None:
            raise OSError(errno.EROFS, "Read-only file system", str(dir))
        return make(prefix=prefix)

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    scratch = scratch_like(data)
    assert isinstance(scratch, np.memmap)
    assert scratch.shape == data.shape


def test_a_full_disk_is_told_with_what_is_needed(tmp_path, monkeypatch):
    def full(handle, start, size):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match=r"No space left on device; 8e-08 GB are needed there.*" + tmp_path.name):
        scratch_like(stored(tmp_path, np.arange(10.0), "disk"))
    assert [p.name for p in tmp_path.iterdir()] == ["a.npy"]


def test_kernels_give_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setattr("rslm.kernels.columns.BLOCK", 50)  # of the transposed pattern; not a multiple of a column
    rng = np.random.default_rng(0)
    index = np.concatenate([np.sort(rng.choice(40, 12, replace=False)) for _ in range(60)]).astype(np.int32)
    y, U = rng.standard_normal(720), rng.standard_normal((40, 3))
    np.save(tmp_path / "y.npy", y)
    np.save(tmp_path / "index.npy", index)
    mapped = [np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("y", "index")]
    indptr = np.arange(0, 721, 12)
    results = []
    for values, pattern in ((y, index), mapped):
        columns = Columns(indptr, pattern, 40)
        solved = columns.evaluate(values, U, np.ones(60), 2)
        rows = columns.by_rows
        moved = columns.in_row_order(values)
        np.testing.assert_array_equal(moved, y[columns.row_order])
        results.append((solved.residual, columns.predict(U, solved.V, 2), rows.index, moved, solved.V, rows.indptr))
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert all(_is_mapped(a) for a in results[1][:4])
    assert not any(_is_mapped(a) for a in results[0])


def _is_mapped(array):
    while array is not None:
        if isinstance(array, np.memmap):
            return True
        array = getattr(array, "base", None)
    return False
