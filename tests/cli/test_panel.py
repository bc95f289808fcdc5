"""`rslm panel`: from a long table to an effect, a report and a model."""

import csv
import json
import sys

import numpy as np
import pytest

import rslm
from rslm.cli import main


def run(monkeypatch, *arguments):
    """The exit code of the command."""
    monkeypatch.setattr(sys, "argv", ["rslm", *map(str, arguments)])
    monkeypatch.setenv("COLUMNS", "120")
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code or 0


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Twenty states over fifteen years; five of them have a law, which adds 3."""
    rng, path = np.random.default_rng(0), tmp_path_factory.mktemp("data") / "sales.csv"
    sales = 50 + rng.standard_normal((20, 1)) + 0.3 * rng.standard_normal((20, 15)) + np.arange(15)
    law = (np.arange(20) < 5)[:, None] & (np.arange(15) >= 9)
    rows = [f"s{i},{1990 + t},{sales[i, t] + 3 * law[i, t]:.4f},{int(law[i, t])}" for i in range(20) for t in range(15)]
    path.write_text("\n".join(["state,year,sales,law", *rows]) + "\n")
    return path


ROLES = ["--unit", "state", "--time", "year", "--outcome", "sales", "--treated", "law"]


def test_from_a_table_to_an_effect(monkeypatch, capsys, table, tmp_path):
    out, model, report = (tmp_path / name for name in ("effects.csv", "sales.rslm", "sales.html"))
    written = ["--out", out, "--model", model, "--report", report, "--refits", "30"]
    assert run(monkeypatch, "panel", table, *ROLES, *written) == 0
    said = capsys.readouterr().out
    assert "Event study" in said
    assert "Global optimum" in said
    assert "before adoption were held out" in said
    lines = list(csv.DictReader(out.read_text().splitlines()))
    assert len(lines) == 30
    assert {line["unit"] for line in lines} == {"s0", "s1", "s2", "s3", "s4"}
    assert float(lines[0]["effect"]) == pytest.approx(3.0, abs=1.5)  # noise 0.3
    assert "<img" in report.read_text(encoding="utf-8")
    assert rslm.load(model).att_ == pytest.approx(3.0, abs=0.4)
    assert run(monkeypatch, "info", model) == 0
    assert "PanelCompletion" in capsys.readouterr().out


def test_json(monkeypatch, capsys, table):
    assert run(monkeypatch, "panel", table, *ROLES, "--refits", "20", "--C", "1", "--rank", "0", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["lower"] < 3.0 < facts["upper"]
    assert facts["relative_gap"] <= 1e-8
    assert facts["event_study"]["relative_time"] == list(range(-3, 6))
    assert facts["before_adoption"]["n"] == 15


def test_wrong_tables(monkeypatch, capsys, table, tmp_path):
    assert "cannot have two roles" in str(run(monkeypatch, "panel", table, *ROLES[:6], "--treated", "sales"))
    twice = tmp_path / "twice.csv"
    lines = table.read_text().splitlines()
    twice.write_text("\n".join([*lines, lines[20]]))
    assert "unit 's1' in period 1994" in str(run(monkeypatch, "panel", twice, *ROLES))
    assert "state" in str(run(monkeypatch, "panel", table, "--unit", "county", *ROLES[2:]))


def test_true_and_false(monkeypatch, capsys, table, tmp_path):
    first, *rows = table.read_text().splitlines()
    words = tmp_path / "words.csv"
    words.write_text("\n".join([first, *(row[:-1] + ("False", "True")[int(row[-1])] for row in rows)]))
    options = *ROLES, "--refits", "20", "--C", "1", "--json"
    found = []
    for path in (table, words):
        assert run(monkeypatch, "panel", path, *options) == 0
        found.append(json.loads(capsys.readouterr().out)["effect"])
    assert found[0] == found[1]
