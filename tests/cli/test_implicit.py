"""`rslm complete --implicit`: what people took, on the command line."""

import json
import sys

import numpy as np
import pytest

import rslm
from rslm.cli import main
from rslm.evaluate import align, rank_items, ranking_report


def run(monkeypatch, *arguments):
    """The exit code of the command."""
    monkeypatch.setattr(sys, "argv", ["rslm", *map(str, arguments)])
    monkeypatch.setenv("COLUMNS", "120")
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code or 0


@pytest.fixture(scope="module")
def plays(tmp_path_factory):
    """Users who each like one of four groups of songs; the first pair is there twice."""
    rng, path = np.random.default_rng(0), tmp_path_factory.mktemp("data") / "plays.csv"
    likes = np.arange(80)[:, None] % 4 == np.arange(40) % 4
    counts = rng.poisson(np.where(likes, 1.5, 0.05))
    counts[0, 0] = 1
    lines = [f"u{i},s{j},{counts[i, j]}" for i, j in np.argwhere(counts)]
    path.write_text("\n".join(["user,song,plays", *lines, lines[0]]) + "\n")
    return path


def test_from_a_table_to_recommendations(monkeypatch, capsys, plays, tmp_path):
    model = tmp_path / "plays.rslm"
    assert run(monkeypatch, "complete", plays, "--implicit", "--model", model) == 0
    said = capsys.readouterr().out
    assert "held out recall@20" in said
    assert "recall@20 of the most popular" in said
    assert "Settings found" in said
    assert run(monkeypatch, "recommend", model, "--for", "u3", "--top", "2", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found) == 2
    assert int(found[0]["id"][1:]) % 4 == 3
    assert run(monkeypatch, "recommend", model, "--for", "u3", "--similar", "--top", "1", "--json") == 0
    assert int(json.loads(capsys.readouterr().out)[0]["id"][1:]) % 4 == 3
    assert run(monkeypatch, "info", model) == 0
    assert "ImplicitCompletion" in capsys.readouterr().out


def test_the_written_model_has_all_entries(monkeypatch, capsys, plays, tmp_path):
    """Held-out items must not be recommended to those who took them."""
    model = tmp_path / "plays.rslm"
    settings = ["--rank", "4", "--C", "5", "--alpha0", "0.2", "--weighting", "0", "--confidence", "linear"]
    assert run(monkeypatch, "complete", plays, "--implicit", *settings, "--model", model, "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["held_out_recall@20"] > facts["recall@20_of_the_most_popular"]
    assert "search" not in facts
    loaded = rslm.load(model)
    taken = loaded._taken
    assert len(taken) == facts["entries"] + facts["held_out_entries"]
    assert taken.weights[0] == 2 * 1  # the repeated pair is summed
    assert loaded.alpha0_ == 0.2


def test_a_written_model_is_evaluated_by_its_rankings(monkeypatch, capsys, plays, tmp_path):
    """The second half of the lines is held out; the first of them is there twice, as in a log of events."""
    header, *lines = plays.read_text().splitlines()
    first, second, model = tmp_path / "first.csv", tmp_path / "second.csv", tmp_path / "plays.rslm"
    first.write_text("\n".join([header, *lines[:-1:2]]))
    second.write_text("\n".join([header, *lines[1:-1:2], lines[1]]))
    settings = ["--rank", "4", "--C", "5", "--alpha0", "0.2", "--weighting", "0"]
    assert run(monkeypatch, "complete", first, "--implicit", *settings, "--model", model) == 0
    capsys.readouterr()
    assert run(monkeypatch, "evaluate", model, second, "--at", "5", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    fitted = rslm.load(model)
    held_out = align(rslm.ObservedMatrix.read(second, duplicates="sum"), fitted)
    users = fitted.row_ids_[np.flatnonzero(held_out.row_counts())]
    wanted = ranking_report(rank_items(fitted, 5, users=users), held_out, 5, train=fitted.known_)
    assert facts == {"entries": len(held_out)} | wanted
    assert run(monkeypatch, "evaluate", model, second, "--ranking", "--at", "5", "--json") == 0
    assert json.loads(capsys.readouterr().out) == facts


def test_zeros_alone_were_not_taken(monkeypatch, tmp_path):
    nothing = tmp_path / "nothing.csv"
    nothing.write_text("user,song,plays\na,x,0\na,y,0\nb,x,0\n")
    assert "nobody took anything" in run(monkeypatch, "complete", nothing, "--implicit")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--implicit", "--lower", "0", "--loss", "huber"], "--lower, --loss cannot be combined with --implicit"),
        (["--implicit", "--no-effects"], "--no-effects cannot be combined with --implicit"),
        (["--alpha0", "1"], "--alpha0 and --confidence need --implicit"),
        (["--implicit", "--alpha0", "0"], "use MatrixCompletion"),
    ],
)
def test_what_does_not_go_together(monkeypatch, plays, options, message):
    assert message in run(monkeypatch, "complete", plays, *options)


def test_a_certificate_on_other_data_is_for_ratings(monkeypatch, capsys, plays, tmp_path):
    model = tmp_path / "plays.rslm"
    settings = ["--rank", "2", "--C", "1", "--alpha0", "0.2", "--weighting", "0", "--holdout", "0"]
    assert run(monkeypatch, "complete", plays, "--implicit", *settings, "--model", model) == 0
    assert "holds an ImplicitCompletion; a MatrixCompletion is needed" in run(
        monkeypatch, "certify", model, plays, "--duplicates", "sum"
    )
