"""`rslm evaluate`: the numbers are those of the library, and what does not fit is said."""

import json
import sys

import numpy as np
import pytest

import rslm
from plain import plain_completion
from rslm import ObservedMatrix
from rslm.cli import main
from rslm.datasets import make_ratings
from rslm.evaluate import holdout_per_user, mae, rank_items, ranking_report, rmse

MADE = make_ratings(60, 45, 900, rank=2, noise=0.3, random_state=0).data
NAMED = ObservedMatrix.from_ratings([f"u{i}" for i in MADE.rows_of_entries()], MADE.index, MADE.values.round(3))
TRAIN, TEST = holdout_per_user(NAMED, 0.2, 0)


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["rslm", *arguments])
    monkeypatch.setenv("COLUMNS", "120")
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code or 0


def write(path, data, *more):
    entries = zip(data.row_ids[data.rows_of_entries()], data.col_ids[data.index], data.values, strict=True)
    path.write_text("\n".join(["user,film,rating", *(f"{u},{i},{v}" for u, i, v in entries), *more]))


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A model, the entries that it was fitted to, and others; the model is returned."""
    monkeypatch.chdir(tmp_path)
    model = plain_completion(3, 20.0, random_state=0).fit(TRAIN)
    model.save("model", known=TRAIN)
    model.save("without")
    write(tmp_path / "test.csv", TEST)
    write(tmp_path / "train.csv", TRAIN)
    return model


def found(monkeypatch, capsys, *arguments):
    capsys.readouterr()
    assert run(monkeypatch, "evaluate", *arguments, "--json") == 0
    said = capsys.readouterr()
    return json.loads(said.out), said.err


def test_errors(files, monkeypatch, capsys):
    facts, _ = found(monkeypatch, capsys, "model", "test.csv")
    assert facts == {
        "entries": len(TEST),
        "RMSE": pytest.approx(rmse(files, TEST), rel=1e-12),  # rounding of products
        "MAE": pytest.approx(mae(files, TEST), rel=1e-12),
    }


def test_rankings(files, monkeypatch, capsys):
    options = "--ranking", "--at", "5", "--at", "20", "--relevant-from", "3.5"
    facts, _ = found(monkeypatch, capsys, "model", "test.csv", *options)
    users = TEST.row_ids[np.flatnonzero(TEST.row_counts())]
    ranking = rank_items(files, 20, users=users)
    wanted = ranking_report(ranking, TEST, (5, 20), train=TRAIN, relevant_from=3.5)
    assert facts == {"entries": len(TEST)} | wanted
    facts, _ = found(monkeypatch, capsys, "model", "test.csv", "--ranking")
    assert "recall@10" in facts


def test_a_table_for_people(files, monkeypatch, capsys):
    assert run(monkeypatch, "evaluate", "model", "test.csv", "--ranking", "--at", "3") == 0
    said = capsys.readouterr().out
    assert "capped recall@3" in said
    assert "Left out" not in said


def test_what_cannot_be_evaluated_is_left_out(files, tmp_path, monkeypatch, capsys):
    seen = TRAIN.row_ids[TRAIN.rows_of_entries()[0]], TRAIN.col_ids[TRAIN.index[0]]
    write(tmp_path / "more.csv", TEST, "nobody,3,1", f"{seen[0]},999,1", f"{seen[0]},{seen[1]},1")
    for options in (), ("--ranking",):
        facts, said = found(monkeypatch, capsys, "model", "more.csv", *options)
        assert facts == found(monkeypatch, capsys, "model", "test.csv", *options)[0]
        said = " ".join(said.split())
        assert f"Left out: 2 of {len(TEST) + 3} entries, of rows or columns that the model does not know." in said
        assert f"Left out: 1 of {len(TEST) + 3} entries, that it was made from." in said


def test_a_model_without_known_entries(files, monkeypatch, capsys):
    facts, said = found(monkeypatch, capsys, "without", "test.csv", "--ranking")
    assert "does not hold the entries it was fitted to" in " ".join(said.split())
    assert "novelty@10" not in facts
    assert facts["recall@10"] < found(monkeypatch, capsys, "model", "test.csv", "--ranking")[0]["recall@10"]


def test_recommendations_of_a_model_without_known_entries(files, monkeypatch, capsys):
    whom = str(TRAIN.row_ids[0])
    for model, noted in (("without", True), ("model", False)):
        capsys.readouterr()
        assert run(monkeypatch, "recommend", model, "--for", whom, "--json") == 0
        said = capsys.readouterr()
        assert len(json.loads(said.out)) == 10
        assert ("--known DATA leaves them out" in " ".join(said.err.split())) == noted


def test_a_file_without_values(files, tmp_path, monkeypatch, capsys):
    lines = (tmp_path / "test.csv").read_text().splitlines()
    (tmp_path / "pairs.csv").write_text("\n".join(line.rpartition(",")[0] for line in lines))
    error = run(monkeypatch, "evaluate", "model", "pairs.csv")
    assert "pairs.csv has no values, only rows and columns, but the model predicts values" in error
    assert run(monkeypatch, "evaluate", "model", "pairs.csv", "--ranking") == 0
    assert run(monkeypatch, "evaluate", "model", "pairs.csv", "--events") == 0  # for models of counts


def test_two_classes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    data = MADE.with_values((MADE.values > MADE.values.mean()).astype(float))
    train, test = holdout_per_user(data, 0.2, 0)
    model = plain_completion(2, 5.0, loss="logistic", random_state=0).fit(train)
    model.save("model", known=train)
    np.save("test.npy", test.to_dense())
    facts, _ = found(monkeypatch, capsys, "model", "test.npy")
    assert facts == {"entries": len(test), "accuracy": pytest.approx(model.score(test))}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["model", "train.csv"], "train.csv has nothing to evaluate on"),
        (["model", "test.csv", "--at", "5"], "--at is for rankings only; add --ranking"),
        (["model", "test.csv", "--relevant-from", "5"], "--relevant-from is for rankings only"),
        (["model", "test.csv", "--ranking", "--at", "46"], "k is 46, but there are only 45 items"),
        (["model", "test.csv", "--ranking", "--relevant-from", "99"], "no user of the ranking has a relevant item"),
    ],
)
def test_bad_wishes(files, monkeypatch, arguments, message):
    assert message in run(monkeypatch, "evaluate", *arguments)


def test_negative_places(files, monkeypatch):
    assert run(monkeypatch, "evaluate", "model", "test.csv", "--ranking", "--at", "-1") == 2


def test_no_completion(tmp_path, monkeypatch):
    rslm.ReducedRankRegressor(1, 1.0).fit(np.eye(4), np.eye(4)).save(tmp_path / "other")
    assert "a MatrixCompletion or an ImplicitCompletion is needed" in run(
        monkeypatch, "evaluate", str(tmp_path / "other"), "test.csv"
    )
