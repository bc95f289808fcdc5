"""The gallery: every example runs, is better than its baseline, and becomes a page, a picture and a valid notebook."""

import ast
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rslm import estimators

ROOT = Path(__file__).resolve().parents[1]
spec = importlib.util.spec_from_file_location("gallery", ROOT / "docs" / "gallery.py")
gallery = sys.modules["gallery"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(gallery)


def implicit(found):
    held_out, of_model, of_popularity = found["shares"].values()
    assert held_out[-1] < of_model[-1] < of_popularity[-1]
    assert found["recall"] > 1.2 * found["recall_of_popular"]
    assert found["gaps"][-1] <= 1e-4 < found["gaps"][0]  # the tolerance of the estimator, where the rank does not bind


def panel(found):
    assert found["low"] < found["true"] < found["high"]
    assert abs(found["model"].att_ - found["true"]) < 0.5 * abs(found["plain"] - found["true"])


def series(found):
    kinds = sorted(part.kind for part in found["model"].components_)
    assert kinds == ["decay", "oscillation", "oscillation", "trend"]
    assert found["inside"] >= 0.75 * found["steps"]
    assert found["mean_error"] < 0.5 * found["naive_error"]


def nmr(found):
    assert found["model"].rank_ == 4
    np.testing.assert_allclose(found["found"], found["frequencies"], atol=0.5)  # Hz; two lines are 2 Hz apart


def yes_or_no(found):
    right = found["test"].values
    assert np.mean((found["probability"] > 0.5) == right) > 1.3 * np.mean(found["guess_by_question"] == right)


def video(found):
    wrong = (found["foreground"] != found["moves"])[found["contrast"] | ~found["moves"]]
    assert wrong.mean() < 0.01


def image(found):
    errors = [np.mean((guess - found["image"])[found["lost"]] ** 2) for guess in found["repaired"].values()]
    assert errors[1] < 0.6 * errors[0]
    assert found["share"] > 0.9


def own_parts(found):
    errors = list(found["errors"].values())
    assert errors == sorted(errors, reverse=True)
    completed = found["completed"]["own loss and structure"]
    np.testing.assert_allclose(completed.sum(axis=1), found["totals"])


def cluster(found):
    assert found["difference"] < 1e-9  # as the design promises
    assert found["there"].score(found["test"]) > 0.5


def last_is_best(found):
    """Of several models, the last one is the one of this package."""
    errors = np.array(list(found["errors"].values() if isinstance(found["errors"], dict) else found["errors"]))
    assert (errors[-1] < 0.8 * errors[:-1].min(axis=0)).all()


def ratings(found):
    mean, effects, model, noise = found["errors"].values()
    assert noise < model < 0.8 * effects < effects < mean
    assert 0.85 < found["inside"].mean() < 0.95


def targets(found):
    assert found["model"].rank_ == 3
    assert found["error"].mean() < 0.9 * found["error_alone"].mean()


def classes(found):
    for_all, alone, related, true = (shares.mean() for shares in found["accuracy"].values())
    assert for_all < alone < related - 0.05 < true


def system(found):
    assert found["model"].rank_ == 3
    assert found["fit"](found["simulated"]) > 0.95 > 0.9 > found["fit"](found["ridge"])


OWN = [ratings, implicit, yes_or_no, panel, image, video, series, nmr, system, targets, classes, own_parts, cluster]
CHECKS = {check.__name__: check for check in OWN}
CHECKS |= dict.fromkeys(["side_information", "imputation", "sensors", "tasks"], last_is_best)


@pytest.mark.parametrize("name", gallery.names())
def test_example(name):
    """It runs without a warning, says what it should, prints numbers, ends with a picture, and becomes a notebook."""
    example = gallery.read(name)
    outputs, variables = gallery.execute(example)
    CHECKS[name](variables)
    assert re.search(r"\d", "".join(output.printed for output in outputs))
    assert outputs[-1].figures
    made = gallery.files(example, outputs)
    assert made[f"{name}.png"].startswith(b"\x89PNG")
    check_notebook(json.loads(made[f"{name}.ipynb"]), example)
    page = made[f"{name}.md"].decode()
    for path in re.findall(r"\]\(([\w/-]+\.(?:png|ipynb|py))\)", page):
        assert path in made
    assert re.search(r"!\[[^\]]{20,}\]", page), "the last cell needs a sentence that describes its picture"


def check_notebook(notebook, example):
    kinds = {"markdown": set(), "code": {"execution_count", "outputs"}}
    for cell in notebook["cells"]:
        assert set(cell) == {"cell_type", "id", "metadata", "source"} | kinds[cell["cell_type"]]
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    code = "\n".join(cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "code")
    whole = ast.parse(example.source).body[1:]  # without the docstring
    assert ast.dump(ast.parse(code)) == ast.dump(ast.Module(whole, []))
    assert any("image/png" in output.get("data", {}) for output in notebook["cells"][-1]["outputs"])


def test_notebooks_are_valid():
    nbformat = pytest.importorskip("nbformat")
    example = gallery.read("ratings")
    outputs = [gallery.Output("1\n", [b"\x89PNG"]) for _ in example.cells]
    nbformat.validate(gallery.notebook(example, outputs))


def test_all_files_are_in_the_gallery():
    assert sorted(gallery.names()) == sorted(path.stem for path in (ROOT / "examples").glob("*.py"))
    assert set(CHECKS) == set(gallery.names())


def test_every_estimator_has_an_example():
    shown = set(gallery.examples_of())
    classes = [name for name in estimators.__all__ if isinstance(getattr(estimators, name), type)]
    assert {f"rslm.estimators.{name}" for name in classes} <= shown


@pytest.mark.parametrize("name", gallery.names())
def test_first_words(name):
    """The introduction says what the reader has and what the reader gets."""
    intro = gallery.read(name).intro
    assert intro.startswith("You have ")
    assert "You get " in intro


def test_the_overview_shows_all():
    text = gallery.overview([gallery.read(name) for name in gallery.names()])
    for name in gallery.names():
        assert f"]({name}.png)" in text
        assert f"]({name}.md)" in text


def test_results_are_kept_until_the_example_changes(tmp_path, monkeypatch):
    calls = []

    def run(command, **_):
        calls.append(command)
        Path(command[-2]).write_text(json.dumps({"key": command[-1], "cells": [{"printed": "1\n", "figures": []}]}))

    monkeypatch.setattr(gallery, "RESULTS", tmp_path)
    monkeypatch.setattr(subprocess, "run", run)
    example = gallery.read("nmr")
    for _ in range(2):
        assert gallery.result(example)[0].printed == "1\n"
    assert len(calls) == 1
    monkeypatch.setattr(gallery, "fingerprint", lambda _: "another")
    gallery.result(example)
    assert len(calls) == 2


def test_a_file_without_title_or_cells_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(gallery, "EXAMPLES", tmp_path)
    (tmp_path / "bare.py").write_text('"""Only a title"""\n')
    with pytest.raises(ValueError, match="needs a title of one line, an empty line, and an introduction"):
        gallery.read("bare")
    (tmp_path / "bare.py").write_text('"""Title\n\nYou have nothing.\n"""\nprint(1)\n')
    with pytest.raises(ValueError, match="there is no cell"):
        gallery.read("bare")
