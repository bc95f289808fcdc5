"""Studies are run once a commit, stored, and left as they are stored if they fail."""

import json
import sys

import pytest

import measured.__main__ as run
from measured import store
from measured.studies import Command, Study

WRITES = """
import json, pathlib, sys
folder, value, code = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
if code == 0:
    (folder / "one.json").write_text(json.dumps({"rows": [{"value": value}], "facts": {}, "commit": "c1"}))
sys.exit(code)
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Where a study writes and where it is stored; the commit is c1."""
    (tmp_path / "write.py").write_text(WRITES)
    monkeypatch.setattr(run, "OUT", tmp_path)
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setattr(run, "commit", lambda: "c1")
    monkeypatch.setattr(store, "STORED", tmp_path / "stored")
    return tmp_path


def measured(place, value, code=0, again=False):
    command = Command(f"python write.py {place} '{value}' {code}", ("one",), 0.1)
    return run.measured(Study("study", (command,)), command, again)


def stored():
    return store.find("one").rows[0]["value"]


def test_a_study_is_stored_with_its_command(place):
    assert measured(place, "first value")
    assert stored() == "first value"
    assert "write.py" in store.find("one").content["command"]


def test_it_is_not_run_twice_at_a_commit(place, capfd):
    measured(place, "first")
    assert measured(place, "second")
    assert stored() == "first"
    assert "stored at this commit" in capfd.readouterr().out
    assert measured(place, "third", again=True)
    assert stored() == "third"


def test_it_is_run_again_at_another_commit(place, monkeypatch):
    measured(place, "first")
    monkeypatch.setattr(run, "commit", lambda: "c2")
    assert measured(place, "second")
    assert stored() == "second"


def test_a_study_that_fails_is_left_as_stored(place):
    measured(place, "first")
    assert not measured(place, "second", code=3, again=True)
    assert stored() == "first"


def test_what_fails_is_named_and_the_pages_are_written(place, monkeypatch):
    command = Command(f"python write.py {place} x 3", ("one",), 0.1)
    monkeypatch.setattr(run, "STUDIES", (Study("study", (command,)),))
    written = []
    monkeypatch.setattr(run, "write", lambda: written.append(True) or [])
    monkeypatch.setattr(sys, "argv", ["measured"])
    with pytest.raises(SystemExit, match=r"failed: python write\.py"):
        run.main()
    assert written


def test_a_report_that_is_not_there_names_the_command(place):
    with pytest.raises(store.NotMeasuredError, match="make benchmarks"):
        store.find("none")


def test_nothing_is_lost_in_a_stored_report(place):
    measured(place, "é")
    assert json.loads((place / "one.json").read_text())["rows"] == store.find("one").rows
