"""`--weight`: a column of weights in the command line."""

import json
import sys

import numpy as np
import pytest

from rslm.cli import main

RNG = np.random.default_rng(0)
TRUTH = 3.0 + RNG.standard_normal((40, 2)) @ RNG.standard_normal((2, 30))
ROWS, COLS = np.nonzero(RNG.random(TRUTH.shape) < 0.5)
VALUES = TRUTH[ROWS, COLS] + 0.1 * RNG.standard_normal(len(ROWS))
THERE = RNG.random(len(ROWS)) < 0.8


def run(monkeypatch, capsys, *arguments):
    """The exit code or message of the command, and its output as JSON."""
    monkeypatch.setattr(sys, "argv", ["rslm", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    out = capsys.readouterr().out
    return ended.value.code or 0, json.loads(out) if "--json" in arguments and not ended.value.code else out


@pytest.fixture
def tables(tmp_path):
    """One with weights 0 and 1, one without the lines of weight 0."""
    lines = [f"u{i},v{j},{v:.4f},{int(t)}" for i, j, v, t in zip(ROWS, COLS, VALUES, THERE, strict=True)]
    (tmp_path / "all.csv").write_text("user,item,rating,trust\n" + "\n".join(lines) + "\n")
    kept = [line for line, t in zip(lines, THERE, strict=True) if t]
    (tmp_path / "kept.csv").write_text("user,item,rating,trust\n" + "\n".join(kept) + "\n")
    return tmp_path


OPTIONS = ("--rank", 2, "--C", 50, "--json")
TIMES = ("seconds", "folder")


def facts(found):
    return {k: v for k, v in found.items() if k not in TIMES}


def test_complete(tables, monkeypatch, capsys):
    code, found = run(monkeypatch, capsys, "complete", tables / "all.csv", "--weight", "trust", *OPTIONS)
    assert code == 0
    _, without = run(monkeypatch, capsys, "complete", tables / "kept.csv", *OPTIONS)
    assert facts(found) == facts(without)
    assert found["entries"] + found["held_out_entries"] == THERE.sum()


def test_what_was_read_is_said(tables, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    _, out = run(monkeypatch, capsys, "complete", tables / "all.csv", "--weight", 4, "--rank", 2, "--C", 50)
    assert "user × item → rating, weight trust" in out


def test_prepare_and_certify(tables, monkeypatch, capsys):
    prepared = ("prepare", tables / "all.csv", tables / "folder", "--weight", "trust", "--json")
    _, found = run(monkeypatch, capsys, *prepared)
    assert found["entries"] == THERE.sum()
    _, one = run(monkeypatch, capsys, "complete", tables / "folder", *OPTIONS, "--model", tables / "m.rslm")
    _, other = run(monkeypatch, capsys, "complete", tables / "kept.csv", *OPTIONS)
    assert one["held_out_RMSE"] == pytest.approx(other["held_out_RMSE"], rel=1e-4)  # both converge to tol
    certify = ("certify", tables / "m.rslm")
    _, weighted = run(monkeypatch, capsys, *certify, tables / "all.csv", "--weight", "trust", "--json")
    _, without = run(monkeypatch, capsys, *certify, tables / "kept.csv", "--json")
    assert weighted == without


def test_held_out_errors_are_weighted(tmp_path, monkeypatch, capsys):
    """The same weights for all change no error, and entries of tiny weight do not count."""
    far = np.where(np.arange(len(ROWS)) % 7 == 0, 1e-9, 1.0)
    values = np.where(far < 1, 1000.0, VALUES)  # gross errors
    lines = [f"{i},{j},{v:.4f},{w}" for i, j, v, w in zip(ROWS, COLS, values, far, strict=True)]
    (tmp_path / "t.csv").write_text("user,item,rating,trust\n" + "\n".join(lines) + "\n")
    _, found = run(monkeypatch, capsys, "complete", tmp_path / "t.csv", "--weight", "trust", *OPTIONS)
    assert found["RMSE_of_the_mean"] < 10.0
    _, plain = run(monkeypatch, capsys, "complete", tmp_path / "t.csv", *OPTIONS)
    assert plain["RMSE_of_the_mean"] > 100.0


def test_multitask(tmp_path, monkeypatch, capsys):
    X, task, there = RNG.standard_normal((80, 2)), np.arange(80) % 4, RNG.random(80) < 0.8
    y = X @ [1.0, 2.0] * (1 + task)
    lines = [f"{a},{b},{v},{t},{int(w)}" for (a, b), v, t, w in zip(X, y, task, there, strict=True)]
    (tmp_path / "all.csv").write_text("a,b,score,school,n\n" + "\n".join(lines) + "\n")
    kept = [line for line, w in zip(lines, there, strict=True) if w]
    (tmp_path / "kept.csv").write_text("a,b,score,school,n\n" + "\n".join(kept) + "\n")
    options = ("--task", "school", "--target", "score", "--rank", 1, "--json")
    _, found = run(monkeypatch, capsys, "multitask", tmp_path / "all.csv", "--weight", "n", *options)
    _, without = run(monkeypatch, capsys, "multitask", tmp_path / "kept.csv", "--leave", "n", *options)
    assert facts(found) == facts(without)
    for column, said in (
        ("score", "cannot be the weight as well as the task or the target"),
        ("a", "the weight of row"),
    ):
        code, _ = run(monkeypatch, capsys, "multitask", tmp_path / "all.csv", "--weight", column, *options)
        assert said in code


def test_refused(tables, monkeypatch, capsys):
    code, _ = run(monkeypatch, capsys, "complete", tables / "all.csv", "--weight", "faith")
    assert "has no column 'faith'; there are user, item, rating, trust" in code
    np.save(tables / "m.npy", np.ones((4, 4)))
    code, _ = run(monkeypatch, capsys, "complete", tables / "m.npy", "--weight", "trust")
    assert "is a NumPy array, to which weights does not apply; leave it out" in code
