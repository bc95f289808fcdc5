"""What a person sees who types `rslm`."""

import sys

import numpy as np
import pytest

import rslm
from rslm.cli import main

SMALL = ["--users", "300", "--items", "200", "--ratings", "20000", "--rank", "4"]


def run(monkeypatch, *arguments):
    """The exit code of the command."""
    monkeypatch.setattr(sys, "argv", ["rslm", *arguments])
    monkeypatch.setenv("COLUMNS", "120")
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code or 0


def test_demo(monkeypatch, capsys, tmp_path):
    assert run(monkeypatch, "demo", "--out", str(tmp_path / "new"), *SMALL) == 0
    shown = capsys.readouterr().out
    for fact in (
        "18,000 ratings",
        "2,000 held out",
        "held-out RMSE",
        "best possible",
        "relative duality gap",
        "throughput",
    ):
        assert fact in shown
    model = rslm.load(tmp_path / "new" / "demo.rslm")
    assert model.row_factors_.shape == (300, 4)
    assert model.certificate_.verdict.split(";")[0] in shown.replace("\n", " ")


def test_demo_predicts_better_than_the_mean(monkeypatch, capsys, tmp_path):
    run(monkeypatch, "demo", "--out", str(tmp_path), *SMALL)
    row = {
        line.split("│")[1].strip(): line.split("│")[2].strip()
        for line in capsys.readouterr().out.splitlines()
        if "│" in line
    }
    floor, found, mean = (float(row[k]) for k in ("best possible (noise)", "held-out RMSE", "predicting the mean"))
    assert floor < found < mean
    assert np.isfinite(found)


def test_version(monkeypatch, capsys):
    assert run(monkeypatch, "--version") == 0
    assert capsys.readouterr().out.strip() == f"rslm {rslm.__version__}"


@pytest.mark.parametrize("arguments", [["--help"], ["demo", "--help"]])
def test_help_shows_an_example(monkeypatch, capsys, arguments):
    assert run(monkeypatch, *arguments) == 0
    assert "rslm demo" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["nonsense"], ["demo", "--rank", "0"], ["demo", "--users", "many"]])
def test_misuse(monkeypatch, capsys, arguments):
    assert run(monkeypatch, *arguments) == 2
    assert arguments[-2 if len(arguments) > 1 else 0] in capsys.readouterr().err


def test_impossible_wishes_are_answered_with_a_sentence(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    assert "File exists" in run(monkeypatch, "demo", "--out", str(tmp_path / "file"), *SMALL)
    assert "rank must be" in run(monkeypatch, "demo", "--out", str(tmp_path), *SMALL, "--rank", "129")


def test_without_typer(monkeypatch):
    monkeypatch.setitem(sys.modules, "typer", None)
    assert "pip install 'rslm[cli]'" in run(monkeypatch, "demo")
