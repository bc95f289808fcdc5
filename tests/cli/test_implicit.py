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
    assert "X has no positive entry" in run(monkeypatch, "complete", nothing, "--implicit")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--implicit", "--lower", "0", "--loss", "huber"], "--lower, --loss cannot be combined with --implicit"),
        (["--implicit", "--no-effects"], "--no-effects cannot be combined with --implicit"),
        (["--alpha0", "1"], "--alpha0 and --confidence need --implicit"),
    ],
)
def test_what_does_not_go_together(monkeypatch, plays, options, message):
    assert message in run(monkeypatch, "complete", plays, *options)


def test_a_certificate_on_other_data(monkeypatch, capsys, plays, tmp_path):
    """On the data of the fit it is that of the fit; the repeated pair is summed there too."""
    model = tmp_path / "plays.rslm"
    settings = ["--rank", "2", "--C", "1", "--alpha0", "0.2", "--weighting", "0", "--holdout", "0"]
    assert run(monkeypatch, "complete", plays, "--implicit", *settings, "--model", model) == 0
    capsys.readouterr()
    assert run(monkeypatch, "certify", model, plays, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["primal"] == pytest.approx(rslm.load(model).certificate_.primal, rel=1e-7)  # gradients of 1e-4 squared


def log_of(plays, path, text):
    """The same plays as a log: a line for each."""
    lines = [line.split(",") for line in plays.read_text().splitlines()[1:]]
    events = [text.format(user=user, song=song) for user, song, count in lines for _ in range(int(count))]
    path.write_text("\n".join(events) + "\n")
    return path


def test_a_log_of_events(monkeypatch, capsys, plays, tmp_path):
    """With times, without, prepared or not: the model is that of the counts."""
    settings = ["--implicit", "--rank", "4", "--C", "5", "--alpha0", "0.2", "--weighting", "0"]
    named, bare = tmp_path / "named.csv", tmp_path / "bare.tsv"
    log_of(plays, named, "{user},{song},1700000000")
    named.write_text("user,song,timestamp\n" + named.read_text())
    log_of(plays, bare, "{user}\t{song}")
    assert run(monkeypatch, "prepare", bare, tmp_path / "folder", "--events") == 0
    models = []
    for k, given in enumerate([[plays], [named], [bare, "--events"], [tmp_path / "folder"]]):
        capsys.readouterr()
        assert run(monkeypatch, "complete", *given, *settings, "--model", tmp_path / f"{k}.rslm") == 0
        models.append(rslm.load(tmp_path / f"{k}.rslm"))
        if given[0] == named:
            said = " ".join(capsys.readouterr().out.split())
            assert "one event a line, counted by user × song; not read: timestamp" in said
    for other in models[1:3]:
        np.testing.assert_array_equal(other.row_factors_, models[0].row_factors_)
    # Prepared values, and with them residuals, are in single precision.
    np.testing.assert_allclose(models[3].row_factors_, models[0].row_factors_, rtol=0, atol=1e-6)
    capsys.readouterr()
    later = tmp_path / "later.csv"
    later.write_text("u1,s2\nu1,s2\nu2,s3\n")
    assert run(monkeypatch, "evaluate", tmp_path / "0.rslm", later, "--events", "--at", "5", "--json") == 0
    assert json.loads(capsys.readouterr().out)["entries"] <= 2


def test_what_may_be_a_log_is_asked_about(monkeypatch, capsys, plays, tmp_path):
    log_of(plays, tmp_path / "bare.tsv", "{user}\t{song}")
    numbers = tmp_path / "bare.tsv"
    numbers.write_text(numbers.read_text().replace("u", "").replace("s", ""))
    assert "if every line is one event" in run(monkeypatch, "complete", numbers, "--implicit")
    times = tmp_path / "times.tsv"
    times.write_text(
        "".join(f"{line}\t1700000000\n" for line in dict.fromkeys(numbers.read_text().split("\n")) if line)
    )
    given = ["--implicit", "--rank", "2", "--C", "1", "--alpha0", "1", "--weighting", "0"]
    assert run(monkeypatch, "complete", times, *given) == 0
    assert "like times, but counts are needed" in " ".join(capsys.readouterr().out.split())
    named = tmp_path / "named.csv"
    named.write_text("user,item\n" + numbers.read_text().replace("\t", ","))
    assert run(monkeypatch, "complete", named, "--rank", "2", "--C", "1") == 0
    assert "for which --implicit is made" in capsys.readouterr().out


def test_the_report(monkeypatch, capsys, plays, tmp_path):
    page = tmp_path / "page.html"
    assert run(monkeypatch, "complete", plays, "--implicit", "--report", page, "--json") == 0
    facts, said = json.loads(capsys.readouterr().out), page.read_text()
    assert facts["report"] == str(page)
    for part in ("Settings that were found", "alpha0", "the most popular items", "recall@20", "How good the answer is"):
        assert part in said
    assert f"{facts['held_out_recall@20']:.4g}" in said
    assert said.count("<img") == 3


def test_a_checkpoint(monkeypatch, capsys, plays, tmp_path):
    """The second time, the search and the fit are known."""
    command = ["complete", plays, "--implicit", "--rank", "3", "--checkpoint", tmp_path / "c", "--json"]
    assert run(monkeypatch, *command) == 0
    first = json.loads(capsys.readouterr().out)
    assert run(monkeypatch, *command) == 0
    second, resumed = capsys.readouterr()
    assert "Resuming from" in resumed
    assert {**json.loads(second), "seconds": 0} == {**first, "seconds": 0}


@pytest.mark.parametrize(
    ("lines", "options", "message"),
    [
        (["a,x,-1"], [], "Negative values in data: -1 at row 'a', column 'x'"),
        (["a,x,-1", "a,s1,1"], ["--holdout", "0.5"], "Negative values in data: -1 at row 'a', column 'x'"),
        (["a,x,1", "a,s1,-1"], ["--holdout", "0.5"], "Negative values in data: -1 at row 'a', column 's1'"),
        ([], ["--alpha0", "0"], "use a small one, such as 0.01, or MatrixCompletion"),
        ([], ["--weighting", "1000"], "weighting must be a number from -100 to 100"),
        ([], ["--confidence", "sure"], "confidence must be one of"),
    ],
)
def test_bad_input(monkeypatch, plays, tmp_path, lines, options, message):
    path = tmp_path / "bad.csv"
    path.write_text(plays.read_text() + "\n".join(lines))
    assert message in run(monkeypatch, "complete", path, "--implicit", *options)
