"""Logs of events: a row and a column a line, perhaps a time, and no value."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from rslm import ObservedMatrix
from rslm.data import read_source
from rslm.data.prepared.opened import open_prepared
from rslm.data.prepared.write import prepare

EVENTS = [("ann", "x", 1_500_000_007), ("bob", "y", 1_500_000_003), ("ann", "x", 1_500_000_009), ("ann", "y", 1)]
COUNTS = [[2.0, 1.0], [np.nan, 1.0]]  # of ann and bob, x and y


def written(path, header, *columns, by=","):
    """A text table with these columns of the events."""
    lines = ([header] if header else []) + [by.join(str(event[k]) for k in columns) for event in EVENTS]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("header", "columns", "said"),
    [
        ("user,song", (0, 1), "counted by user × song"),  # a line of words alone is a header if it has known names
        ("user,song,timestamp", (0, 1, 2), "counted by user × song; not read: timestamp"),
        ("timestamp,item_id,user_id", (2, 1, 0), "counted by user_id × item_id; not read: timestamp"),
        ("visitor,what,item,event time", (0, 1, 1, 2), "counted by visitor × item; not read: what, event time"),
        ("name,thing,played_at", (0, 1, 2), "counted by name × thing; not read: played_at"),  # words, and a time
        ("user,thing,date", (0, 1, 2), "counted by user × thing; not read: date"),
    ],
)
def test_known_names(tmp_path, header, columns, said):
    path = written(tmp_path / "log.csv", header, *columns)
    source = read_source(path)
    assert source.how == f"text separated by comma, with a header, one event a line, {said}"
    assert source.events
    np.testing.assert_array_equal(source.data.to_dense(), COUNTS)
    manifest = prepare(path, tmp_path / "folder")
    assert manifest.how == source.how
    prepared = open_prepared(tmp_path / "folder")
    np.testing.assert_array_equal(prepared.to_dense(), COUNTS)
    assert prepared.row_ids.tolist() == ["ann", "bob"]


@pytest.mark.parametrize("header", ["", "a,b,c"])
def test_what_names_do_not_say_is_given(tmp_path, header):
    path = written(tmp_path / "log.csv", header, 0, 1, 2)
    times = read_source(path, duplicates="sum")
    assert not times.events
    assert times.data.values.max() > 1e9  # times were read as values
    np.testing.assert_array_equal(ObservedMatrix.read(path, events=True).to_dense(), COUNTS)
    prepare(path, tmp_path / "folder", events=True)
    np.testing.assert_array_equal(open_prepared(tmp_path / "folder").to_dense(), COUNTS)


def test_two_columns_without_names_are_a_matrix_unless_events_are_given(tmp_path):
    path = tmp_path / "log.tsv"
    path.write_text("1\t5\n2\t5\n1\t5\n")
    assert read_source(path).data.shape == (3, 2)
    source = read_source(path, events=True)
    assert "column 1 × column 2" in source.how
    np.testing.assert_array_equal(source.data.to_dense(), [[2.0], [1.0]])
    swapped = read_source(path, rows=2, cols=1)  # named columns leave none for values
    assert swapped.events
    np.testing.assert_array_equal(swapped.data.to_dense(), [[2.0, 1.0]])


def test_parquet(tmp_path):
    path = tmp_path / "log.parquet"
    users, songs, times = zip(*EVENTS, strict=True)
    pl.DataFrame({"user": users, "song": songs, "time": times}).write_parquet(path)
    np.testing.assert_array_equal(ObservedMatrix.read(path).to_dense(), COUNTS)
    prepare(path, tmp_path / "folder")
    np.testing.assert_array_equal(open_prepared(tmp_path / "folder").to_dense(), COUNTS)


def test_the_index_of_pandas_is_no_count(tmp_path):
    users, songs, times = zip(*EVENTS, strict=True)
    frame = pd.DataFrame({"user": users, "song": songs, "time": times}, index=np.arange(len(users)) * 2)
    frame.to_parquet(tmp_path / "log.parquet")
    assert "__index_level_0__" in pl.read_parquet_schema(tmp_path / "log.parquet")
    source = read_source(tmp_path / "log.parquet")
    assert source.events
    assert source.data.values.sum() == len(EVENTS)


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ("user,item,rating,timestamp", (0, 1, 2, 2)),
        ("user,item,watch_time", (0, 1, 2)),  # seconds, and no time
        ("user,item,amount,date", (0, 1, 2, 2)),
    ],
)
def test_a_column_of_values_is_read(tmp_path, header, columns):
    source = read_source(written(tmp_path / "log.csv", header, *columns), duplicates="last")
    assert not source.events
    assert source.data.values.max() == 1_500_000_009


def test_a_series_of_measurements_is_a_matrix(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("date,sales,visits\n2024-05-01,3,8\n2024-05-02,4,7\n")
    assert read_source(path).data.shape == (2, 2)


def test_each_pair_once(tmp_path):
    path = written(tmp_path / "log.csv", "user,item", 0, 1)
    assert set(ObservedMatrix.read(path, duplicates="last").values) == {1.0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"values": 3}, "events have no values: every line counts 1"),
        ({"weights": "timestamp"}, "events have no weights"),
        ({"layout": "dense"}, "layout 'dense' is a matrix, and not one event a line"),
    ],
)
def test_contradictions(tmp_path, options, message):
    path = written(tmp_path / "log.csv", "user,item,timestamp", 0, 1, 2)
    with pytest.raises(ValueError, match=message):
        read_source(path, events=True, **options)


def test_what_cannot_be_events(tmp_path):
    path = written(tmp_path / "log.csv", "user,timestamp", 0, 2)
    with pytest.raises(ValueError, match="an event needs a row and a column"):
        read_source(path, events=True)
    np.save(tmp_path / "dense.npy", np.ones((2, 2)))
    with pytest.raises(ValueError, match="events does not apply"):
        read_source(tmp_path / "dense.npy", events=True)
