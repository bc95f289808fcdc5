"""Cells of the paper's experiments are computed once, and a run that was stopped continues."""

import json
import types

import pytest

from paper import cells
from paper.cells import Cell, Missing, Section, Store, computed, run, stored


def called(**arguments):
    """What the cells of these tests call, in a worker."""
    if arguments.get("fail"):
        raise ValueError("it cannot be done")
    return {"sum": sum(arguments["numbers"])}


def cell(numbers, **more):
    return Cell(f"sum of {numbers}", f"{__name__}:called", {"numbers": numbers, **more}, ("tabular",))


@pytest.fixture
def in_this_process(monkeypatch):
    """Workers of a spawned process would import this file by name, which is not on their path."""
    ran = []

    def one_by_one(store, todo, jobs, say):
        for c in todo:
            ran.append(c.label)
            result, seconds = cells._call(c)
            if "error" not in result:
                store.put(c, result, seconds)
            yield c.key, result

    monkeypatch.setattr(cells, "_in_processes", one_by_one)
    monkeypatch.setitem(__import__("sys").modules, __name__, types.SimpleNamespace(called=called))
    return ran


def test_a_finished_cell_is_not_computed_again(tmp_path, in_this_process):
    work = computed(Store(tmp_path), 1, print)
    assert work([cell([1, 2]), cell([3])]) == [{"sum": 3}, {"sum": 3}]
    assert work([cell([1, 2]), cell([4])]) == [{"sum": 3}, {"sum": 4}]
    assert in_this_process == ["sum of [1, 2]", "sum of [3]", "sum of [4]"]


def test_a_failure_is_a_result_and_is_tried_again(tmp_path, in_this_process, capsys):
    work = computed(Store(tmp_path), 1, print)
    for _ in range(2):
        assert work([cell([1], fail=True)]) == [{"error": "ValueError: it cannot be done"}]
    assert len(in_this_process) == 2
    assert "it cannot be done" in capsys.readouterr().err


def test_other_arguments_or_sources_are_another_cell(monkeypatch):
    assert cell([1]).key != cell([2]).key
    before = cell([1]).key
    assert cell([1]).key == before
    monkeypatch.setattr(cells, "_text", lambda name: "changed")
    assert cell([1]).key != before


def test_a_source_that_is_not_there_is_named():
    with pytest.raises(ModuleNotFoundError, match=r"paper\.nowhere"):
        _ = Cell("", "a:b", {}, ("paper.nowhere",)).key


def test_stored_results_alone(tmp_path, in_this_process):
    store = Store(tmp_path)
    with pytest.raises(Missing, match=r"1 of 1 cells are missing, for example sum of \[5\]"):
        stored(store)([cell([5])])
    computed(store, 1, print)([cell([5])])
    assert stored(store)([cell([5])]) == [{"sum": 5}]
    (file,) = tmp_path.rglob("*.json")
    assert {"label", "arguments", "result", "seconds", "date", "commit"} == set(json.loads(file.read_text()))


def test_results_of_a_round_decide_the_next(tmp_path, in_this_process):
    def plan():
        (first,) = yield [cell([1, 2])]
        (second,) = yield [cell([first["sum"], 10])]
        return Section("title", f"{second['sum']}")

    assert run(plan(), computed(Store(tmp_path), 1, print)).body == "13"


def test_workers(tmp_path):
    """A cell in a process of its own: any function of JSON values by name."""
    lines = []
    in_worker = Cell("read", "json:loads", {"s": '{"found": 1}'}, ())
    assert dict(cells._in_processes(Store(tmp_path), [in_worker], 1, lines.append)) == {in_worker.key: {"found": 1}}
    assert "1/1  read" in lines[0]


def test_what_was_finished_before_an_interrupt_is_kept(tmp_path):
    todo = [Cell(f"read {k}", "json:loads", {"s": f'{{"found": {k}}}'}, ()) for k in range(3)]
    store = Store(tmp_path)

    def interrupted(line):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        computed(store, 1, interrupted)(todo)
    assert len(list(tmp_path.rglob("*.json"))) == 1
    lines = []
    assert computed(store, 1, lines.append)(todo) == [{"found": k} for k in range(3)]
    assert len(lines) == 2
