"""What a person sees who types `rslm`."""

import io
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from rich.console import Console

import rslm
from rslm import kernels
from rslm.cli import main
from rslm.cli.progress import FitProgress
from rslm.estimators.completion.learned import learned_rows


def run(monkeypatch, *arguments):
    """The exit code of the command."""
    monkeypatch.setattr(sys, "argv", ["rslm", *arguments])
    monkeypatch.setenv("COLUMNS", "120")
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code or 0


def test_version(monkeypatch, capsys):
    assert run(monkeypatch, "--version") == 0
    assert capsys.readouterr().out.strip() == f"rslm {rslm.__version__}"


@pytest.mark.parametrize("arguments", [["--help"], ["demo", "--help"]])
def test_help_shows_an_example(monkeypatch, capsys, arguments):
    assert run(monkeypatch, *arguments) == 0
    assert "rslm demo" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["nonsense"], ["demo", "--seed", "-1"], ["complete", "data.csv", "--rank", "0"]])
def test_misuse(monkeypatch, capsys, arguments):
    assert run(monkeypatch, *arguments) == 2
    assert arguments[-2 if len(arguments) > 1 else 0] in capsys.readouterr().err


def test_impossible_wishes_are_answered_with_a_sentence(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    assert "File exists" in run(monkeypatch, "demo", "--out", str(tmp_path / "file"))


def test_a_wrong_instruction_set_matters_to_what_computes(tmp_path):
    """In processes of their own, where nothing has been imported."""
    code = """
import sys
from rslm.cli import program
for words in (["--help"], ["--version"], ["complete", "--help"], sys.argv[1:]):
    sys.argv = ["rslm", *words]
    try:
        program()
    except SystemExit as ended:
        print("ended with", ended.code or 0, file=sys.stderr)
"""

    def ended(name):
        given = os.environ | {"RSLM_INSTRUCTION_SET": name}
        command = [sys.executable, "-c", code, "complete", str(tmp_path / "t.csv"), "--rank", "1", "--C", "1"]
        return subprocess.run(command, env=given, capture_output=True, text=True).stderr.splitlines()

    (tmp_path / "t.csv").write_text("user,item,rating\na,x,1\nb,x,2\nb,y,3\na,y,4\n")
    *others, last = ended("mmx")
    assert others == ["ended with 0"] * 3
    first = kernels.instruction_sets()[0]
    said = f"Error: the environment variable RSLM_INSTRUCTION_SET is 'mmx', and this machine has {first}"
    assert last.startswith(f"ended with {said}")
    assert ended(first)[-1] == "ended with 0"


def test_without_typer(monkeypatch):
    monkeypatch.setitem(sys.modules, "typer", None)
    assert "pip install 'rslm[cli]'" in run(monkeypatch, "demo")


# ---- from a file to a result -----------------------------------------------------------------------------------------


@pytest.fixture
def ratings(tmp_path):
    """Ratings of which the truth has rank 2, by people with names."""
    rng = np.random.default_rng(0)
    truth = 3.0 + rng.standard_normal((40, 2)) @ rng.standard_normal((2, 30))
    path = tmp_path / "ratings.csv"
    lines = [
        f"user {i},film {j},{truth[i, j]:.3f}" for i in range(40) for j in range(30) if rng.random() < 0.5 or i == j
    ]
    path.write_text("user,item,rating\n" + "\n".join(lines) + "\n")
    return path


def completed(monkeypatch, ratings, *more):
    model = ratings.parent / "model.rslm"
    return model, run(monkeypatch, "complete", str(ratings), "--rank", "3", "--C", "100", "--model", str(model), *more)


def test_complete_tells_what_it_read_and_found(monkeypatch, capsys, ratings):
    model, code = completed(monkeypatch, ratings)
    assert code == 0
    shown = " ".join(capsys.readouterr().out.split())
    for fact in ("text separated by comma, with a header", "user × item → rating", "40 × 30", "held out RMSE"):
        assert fact in shown
    fitted = rslm.load(model)
    assert fitted.row_ids_[0] == "user 0"
    assert fitted.certificate_.verdict.split(";")[0] in shown


def test_a_robust_loss_suits_the_unit_of_the_data(monkeypatch, capsys, tmp_path):
    """Grey values up to 255 with outliers: without being told C or δ."""
    rng = np.random.default_rng(0)
    truth = 25 * (5 + rng.standard_normal((40, 2)) @ rng.standard_normal((2, 30)))
    seen = np.where(rng.random(truth.shape) < 0.6, truth, np.nan)
    wrong = rng.random(truth.shape) < 0.1
    seen[wrong & ~np.isnan(seen)] = 1000
    lines = [",".join("" if np.isnan(v) else f"{v:.1f}" for v in row) for row in seen]
    (tmp_path / "panel.csv").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    found = {}
    for loss in ("huber", "absolute", "epsilon_insensitive", "square"):
        wishes = ["--rank", "3", "--loss", loss, "--weighting", "0", "--no-effects", "--json"]
        assert run(monkeypatch, "complete", "panel.csv", *wishes) == 0
        facts = json.loads(capsys.readouterr().out)
        found[loss] = facts["held_out_RMSE" if loss == "square" else "held_out_median_error"]
    assert max(found["huber"], found["absolute"]) < 5
    assert found["epsilon_insensitive"] < 10  # errors up to 6 cost nothing; the mean has 24
    assert found["square"] > 50


def test_classes_are_judged_by_the_part_that_is_right(monkeypatch, capsys, ratings):
    text = ratings.read_text().splitlines()
    liked = [text[0], *(f"{a},{b},{int(float(v) > 3)}" for a, b, v in (line.split(",") for line in text[1:]))]
    ratings.write_text("\n".join(liked))
    assert completed(monkeypatch, ratings, "--json", "--loss", "logistic")[1] == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["held_out_accuracy"] > max(0.8, facts["accuracy_of_the_more_frequent_class"])
    assert "held_out_RMSE" not in facts


def test_an_encoding_is_told_or_guessed(monkeypatch, capsys, tmp_path):
    lines = [f'"Jörg {k % 9}";"\\"{k % 7}";"{k % 5 + 1}"' for k in range(63)]
    path = tmp_path / "books.csv"
    path.write_bytes("\n".join(["user;item;rating", *lines, ""]).encode("latin-1"))
    for more, said in (([], "Latin-1 as it is not UTF-8"), (["--encoding", "cp1252"], "in Windows-1252")):
        run(monkeypatch, "complete", str(path), "--rank", "1", "--C", "1", "--holdout", "0", *more)
        shown = " ".join(capsys.readouterr().out.split())
        assert said in shown
        assert "quotes escaped by backslashes" in shown
        assert "9 × 7, 63 entries" in shown


def latin(path, lines):
    path.write_bytes("\n".join([*lines, ""]).encode("latin-1"))
    return str(path)


def fitted_to_names(monkeypatch, tmp_path):
    """A model of people with names, and its data."""
    entries = [f"Jörg {k % 9};film {k % 7};{k % 5 + 1}" for k in range(40)]
    data = latin(tmp_path / "data.csv", ["user;item;rating", *entries])
    run(monkeypatch, "complete", data, "--rank", "1", "--C", "1", "--holdout", "0", "--model", str(tmp_path / "m"))
    return str(tmp_path / "m"), data


@pytest.mark.parametrize("to_a_file", [False, True])
def test_predict_says_how_it_read_the_pairs(monkeypatch, capsys, tmp_path, to_a_file):
    model, _ = fitted_to_names(monkeypatch, tmp_path)
    pairs = latin(tmp_path / "pairs.csv", ["user;item", "Jörg 1;film 2"])
    capsys.readouterr()
    assert run(monkeypatch, "predict", model, pairs, *(["--out", str(tmp_path / "out")] if to_a_file else [])) == 0
    shown = capsys.readouterr()
    assert "Latin-1 as it is not UTF-8" in " ".join((shown.out if to_a_file else shown.err).split())
    if not to_a_file:
        assert shown.out.startswith("row,column,prediction")


@pytest.mark.parametrize(
    ("text", "more", "taken"),
    [
        ("item,user\nfilm 2,user 1\nfilm 4,user 3\n", [], "user × item"),
        ("when,item,user\n1,film 2,user 1\n2,film 4,user 3\n", [], "user × item"),
        ("item,who\nfilm 2,user 1\nfilm 4,user 3\n", ["--header"], "who × item"),
        ("item,user\nuser 1,film 2\nuser 3,film 4\n", ["--rows", "item"], "item × user"),
        ("user 1,film 2\nuser 3,film 4\n", [], "column 1 × column 2"),
        ("film 2,user 1\nfilm 4,user 3\n", ["--rows", "2", "--cols", "1"], "column 2 × column 1"),
        ("film 2,user 1\nfilm 4,user 3\n", ["--rows", "2"], "column 2 × column 1"),
        ("film,visitor\nfilm 2,user 1\nfilm 4,user 3\n", [], "visitor × film"),
    ],
)
def test_the_columns_of_pairs_are_found_by_name(monkeypatch, capsys, ratings, text, more, taken):
    model, _ = completed(monkeypatch, ratings)
    pairs = ratings.parent / "pairs.csv"
    pairs.write_text(text)
    capsys.readouterr()
    assert run(monkeypatch, "predict", str(model), str(pairs), *more) == 0
    shown = capsys.readouterr()
    assert [line.split(",")[:2] for line in shown.out.splitlines()[1:]] == [["user 1", "film 2"], ["user 3", "film 4"]]
    assert f"one pair a line: {taken}" in " ".join(shown.err.split())


def test_known_entries_are_read_as_other_data_are(monkeypatch, capsys, tmp_path):
    model, _ = fitted_to_names(monkeypatch, tmp_path)
    entries = [f"{k % 3};film {k};Jörg 1" for k in range(3)]  # in another order, without a header
    known = tmp_path / "known.csv"
    known.write_bytes("\n".join([*entries, ""]).encode("utf-16-le"))
    given = [
        "--encoding",
        "utf-16-le",
        "--no-header",
        "--delimiter",
        ";",
        "--rows",
        "3",
        "--cols",
        "2",
        "--values",
        "1",
    ]
    capsys.readouterr()
    assert run(monkeypatch, "recommend", model, "--for", "Jörg 1", "--known", str(known), *given, "--json") == 0
    shown = capsys.readouterr()
    assert {found["id"] for found in json.loads(shown.out)} == {"film 3", "film 4", "film 5", "film 6"}
    assert "in utf-16-le" in " ".join(shown.err.split())
    assert "--encoding: only for reading the file of --known" in run(
        monkeypatch, "recommend", model, "--for", "Jörg 1", "--encoding", "utf-8"
    )


def test_one_of_several_matrices_in_a_file(monkeypatch, capsys, tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "a.npz", X=rng.random((4, 5)), Y=rng.random((3, 6)))
    arguments = ["complete", str(tmp_path / "a.npz"), "--rank", "1", "--C", "1"]
    assert "X (4 × 5) and Y (3 × 6); name one: --variable X" in run(monkeypatch, *arguments)
    assert run(monkeypatch, *arguments, "--variable", "Y") == 0
    assert "3 × 6, 18 entries" in capsys.readouterr().out


def test_an_encoding_for_what_is_no_text(monkeypatch, tmp_path):
    np.save(tmp_path / "a.npy", np.eye(3))
    said = run(monkeypatch, "complete", str(tmp_path / "a.npy"), "--encoding", "latin-1")
    assert said.endswith("a.npy is a NumPy array, to which encoding does not apply; leave it out")


def test_complete_for_machines(monkeypatch, capsys, ratings):
    _, code = completed(monkeypatch, ratings, "--json")
    facts = json.loads(capsys.readouterr().out)
    assert code == 0
    assert facts["held_out_RMSE"] < 0.5 * facts["RMSE_of_the_mean"]
    assert facts["model"].endswith("model.rslm")


def test_complete_averages(monkeypatch, capsys, ratings):
    model, code = completed(monkeypatch, ratings, "--average", "20", "--report", str(ratings.parent / "r.html"))
    assert code == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Predictions are means of 20 draws from a posterior with noise" in shown
    assert rslm.load(model).n_draws_ == 20
    assert "mean of the draws" in (ratings.parent / "r.html").read_text()
    assert run(monkeypatch, "info", str(model)) == 0
    assert "means of 20 draws" in " ".join(capsys.readouterr().out.split())
    assert completed(monkeypatch, ratings, "--force", "--average", "20", "--json")[1] == 0
    assert json.loads(capsys.readouterr().out)["draws"] == 20


def test_predict_writes_the_spread_of_an_average(monkeypatch, capsys, ratings):
    model, _ = completed(monkeypatch, ratings, "--average", "20", "--interval", "0.8")
    pairs = ratings.parent / "pairs.csv"
    pairs.write_text("user,film\nuser 3,film 4\nuser 5,film 6\n")
    capsys.readouterr()
    assert run(monkeypatch, "predict", str(model), str(pairs), "--spread", "--interval", "0.8") == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header == "row,column,prediction,lower,upper,spread"
    expected = rslm.load(model).predict_spread(["user 3", "user 5"], ["film 4", "film 6"])
    assert [float(line.split(",")[-1]) for line in lines] == pytest.approx(expected, rel=1e-5)
    completed(monkeypatch, ratings, "--force")
    assert "rslm complete --average 100" in str(run(monkeypatch, "predict", str(model), str(pairs), "--spread"))
    said = str(run(monkeypatch, "predict", str(model), str(pairs), "--interval", "0.9"))
    assert "fit one with rslm complete --interval 0.9" in said
    assert "calibrate" not in said


def test_advice_for_python_is_left_out(monkeypatch, capsys, tmp_path):
    """Of a column without entries in the part that is fitted."""
    lines = [f"u{i},f{j},{(i * j) % 5 + 1}" for i in range(12) for j in range(6)]
    lines += [f"u{k % 12},alone {k},3" for k in range(60)]
    (tmp_path / "r.csv").write_text("\n".join(["user,item,rating", *lines]))
    assert run(monkeypatch, "complete", str(tmp_path / "r.csv"), "--rank", "1", "--C", "1") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "have no observed entry; they are predicted" in said
    assert "keep_empty" not in said


def test_complete_finds_its_settings(monkeypatch, capsys, ratings):
    """Without any option, and says why."""
    assert run(monkeypatch, "complete", str(ratings), "--json") == 0
    shown = capsys.readouterr()
    facts = json.loads(shown.out)
    assert facts["rank"] == 2
    assert facts["held_out_RMSE"] < 0.3 * min(facts["RMSE_of_the_mean"], facts["RMSE_of_effects_alone"])
    search = facts["search"]
    assert search["error_of_model"] < min(search["error_of_mean"], search["error_of_effects"])
    assert f"Settings found: rank 2, C = {facts['C']:.3g}" in " ".join(shown.err.split())
    assert f"effects alone {search['error_of_effects']:.4g}" in " ".join(shown.err.split())


def test_given_settings_are_kept(monkeypatch, capsys, ratings):
    given = ["--rank", "3", "--C", "20", "--weighting", "0.25", "--no-effects", "--json"]
    assert run(monkeypatch, "complete", str(ratings), *given) == 0
    facts = json.loads(capsys.readouterr().out)
    assert [facts[k] for k in ("rank", "C", "weighting", "effects")] == [3, 20.0, 0.25, False]
    assert "search" not in facts
    assert run(monkeypatch, "complete", str(ratings), "--rank", "3", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["rank"] <= 3
    assert "search" in facts
    assert "--tune is the default now; leave it out" in run(monkeypatch, "complete", str(ratings), "--tune")


def test_a_checkpoint_has_what_was_found(monkeypatch, capsys, ratings):
    words = ["complete", str(ratings), "--rank", "3", "--json", "--checkpoint", str(ratings.parent / "c")]
    found = []
    for _ in range(2):
        assert run(monkeypatch, *words) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0]["search"] == found[1]["search"]
    assert found[0]["C"] == found[1]["C"]


def test_effects_alone_are_an_answer(monkeypatch, capsys, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 1)) + rng.standard_normal(80) + rng.standard_normal((100, 80))
    np.save(tmp_path / "additive.npy", X)
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, "complete", "additive.npy", "--holdout", "0", "--model", "m") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Settings found: effects alone" in shown
    assert "The low-rank part does not help here" in shown
    assert rslm.load("m").rank_ == 0
    assert run(monkeypatch, "info", "m", "--json") == 0
    assert json.loads(capsys.readouterr().out)["error_of_effects"] > 0
    assert "its rows differ by effects alone" in run(monkeypatch, "recommend", "m", "--for", "1", "--similar")


def test_progress_says_what_is_tried(monkeypatch, ratings):
    """Every fit of a search, then the final one; in a terminal, where a line is drawn for each."""
    monkeypatch.setattr("rslm.cli.progress.EVERY", -1.0)  # every line is due
    console, lines = Console(file=io.StringIO(), force_terminal=True, width=100), []
    progress = FitProgress(console, lambda now: 0.5)
    line = progress._line
    progress._line = lambda now: lines.append(line(now)) or lines[-1]
    rslm.MatrixCompletion(random_state=0).set_callbacks(progress).fit(rslm.ObservedMatrix.read(ratings))
    assert lines[0].startswith("Finding settings: trying rank 1, C ")
    assert lines[-1].startswith("Iteration ")
    assert all("held-out RMSE 0.5000" in line for line in lines)


def test_progress_names_what_has_no_model_yet(monkeypatch):
    """The values of C that a panel tries, and its refits."""
    monkeypatch.setattr("rslm.cli.progress.EVERY", -1.0)  # every line is due
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    progress, lines = FitProgress(console), []
    monkeypatch.setattr(progress._bar, "update", lambda task, description: lines.append(description))
    Y, treated = np.random.default_rng(0).standard_normal((12, 9)), np.zeros((12, 9), dtype=bool)
    treated[:3, 6:] = True
    rslm.PanelCompletion(n_refits=7, pre_periods=0, random_state=0).set_callbacks(progress).fit(Y, treated)
    assert lines[0].startswith("C 0.01562: RMSE of held-out control outcomes")
    assert "Refit 7 of 7" in lines


def test_the_filled_matrix_keeps_what_was_observed(monkeypatch, capsys, ratings):
    filled = ratings.parent / "filled.csv"
    _, code = completed(monkeypatch, ratings, "--fill", str(filled), "--holdout", "0")
    assert code == 0
    table = rslm.ObservedMatrix.read(filled)
    given = rslm.ObservedMatrix.read(ratings)
    assert table.shape == given.shape
    assert len(table) == 40 * 30
    order = [table.col_ids.tolist().index(c) for c in given.col_ids]
    rows = [table.row_ids.tolist().index(r) for r in given.row_ids]
    np.testing.assert_allclose(
        table.to_dense()[np.ix_(rows, order)][~np.isnan(given.to_dense())], given.values, atol=1e-3
    )


def test_files_are_not_overwritten_by_accident(monkeypatch, capsys, ratings):
    model, _ = completed(monkeypatch, ratings)
    before = model.read_bytes()
    _, said = completed(monkeypatch, ratings)
    assert "exists; add --force" in said
    assert model.read_bytes() == before
    assert completed(monkeypatch, ratings, "--force")[1] == 0
    assert not [p for p in model.parent.iterdir() if p.name.startswith(".")]


def test_predict_and_recommend(monkeypatch, capsys, ratings):
    model, _ = completed(monkeypatch, ratings)
    pairs = ratings.parent / "pairs.csv"
    pairs.write_text("User ID,film\nuser 3,film 4\nuser 5,film 6\n")
    capsys.readouterr()
    assert run(monkeypatch, "predict", str(model), str(pairs)) == 0
    shown = capsys.readouterr()
    assert "pairs.csv: text separated by comma, with a header" in shown.err
    lines = shown.out.splitlines()
    assert lines[0] == "row,column,prediction"
    expected = rslm.load(model).predict(["user 3", "user 5"], ["film 4", "film 6"])
    assert [float(line.split(",")[2]) for line in lines[1:]] == pytest.approx(expected, rel=1e-5)
    out = ratings.parent / "out.csv"
    assert run(monkeypatch, "predict", str(model), str(pairs), "--out", str(out)) == 0
    assert out.read_text().splitlines() == lines
    capsys.readouterr()
    assert run(monkeypatch, "recommend", str(model), "--for", "user 3", "--known", str(ratings), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    data = rslm.ObservedMatrix.read(ratings)
    row = data.row_of(["user 3"])[0]
    known = set(data.col_ids[data.index[data.indptr[row] : data.indptr[row + 1]]])
    assert not known & {f["id"] for f in found}
    assert [f["score"] for f in found] == sorted((f["score"] for f in found), reverse=True)
    assert run(monkeypatch, "recommend", str(model), "--for", "user 3", "--similar", "--top", "4") == 0
    assert "│ user 3 " not in capsys.readouterr().out


def test_info_and_certify(monkeypatch, capsys, ratings):
    model, _ = completed(monkeypatch, ratings, "--holdout", "0")
    capsys.readouterr()
    assert run(monkeypatch, "info", str(model), "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["estimator"] == "MatrixCompletion"
    assert facts["rank"] == rslm.load(model).rank_
    assert run(monkeypatch, "certify", str(model), str(ratings), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    of_fit = rslm.load(model).certificate_
    assert found["primal"] == pytest.approx(of_fit.primal, rel=1e-6)
    assert found["dual"] == pytest.approx(of_fit.dual, rel=1e-4)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["complete", "none.csv"], "none.csv does not exist"),
        (["complete", "{ratings}", "--values", "stars"], "has no column 'stars'"),
        (["complete", "{ratings}", "--loss", "cubic"], "loss must be one of"),
        (["complete", "{ratings}", "--model", "none/m.rslm"], "the folder none does not exist"),
        (["predict", "{ratings}", "{ratings}"], "is not a model of rslm"),
        (["info", "none.rslm"], "none.rslm does not exist"),
        (["info", "."], ".: Is a directory"),
        (["prepare", "{ratings}", "{model}.folder"], "exists; force=True or --force replaces it"),
        (["recommend", "{model}", "--for", "nobody"], "'nobody' is not a row of the model"),
    ],
)
def test_what_goes_wrong_is_told_in_one_line(monkeypatch, capsys, ratings, arguments, said):
    model, _ = completed(monkeypatch, ratings)
    if arguments[0] == "prepare":
        assert run(monkeypatch, "prepare", str(ratings), f"{model}.folder") == 0
    code = run(monkeypatch, *(a.format(ratings=ratings, model=model) for a in arguments))
    assert said in code
    assert code.startswith("Error: ")
    assert "\n" not in code


def test_an_interrupt_keeps_the_best_model(monkeypatch, capsys, ratings):
    pressed = []

    def interrupting(self, estimator, context, *, fitted_estimator=None):
        if not pressed:
            pressed.append(True)
            raise KeyboardInterrupt
        return False

    monkeypatch.setattr("rslm.cli.progress.FitProgress.on_fit_task_end", interrupting)
    model, code = completed(monkeypatch, ratings)
    assert code == 130
    assert rslm.load(model).outcome_ == "interrupted"


def test_denoise_with_spikes(monkeypatch, capsys, tmp_path):
    rng, t = np.random.default_rng(0), np.arange(80)
    y = np.cos(0.4 * t) + 0.05 * rng.standard_normal(80)
    y[[7, 30, 61]] += [9.0, -9.0, 9.0]
    path = tmp_path / "y.csv"
    path.write_text("y\n" + "\n".join(map(str, y)) + "\n")
    assert run(monkeypatch, "denoise", str(path), "--loss", "huber", "--rank", "4", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["order"] == 2
    assert facts["spikes"] == 3
    assert facts["noise"] < 0.1
    assert float(facts["loss"].removeprefix("huber:")) == pytest.approx(1.345 * facts["noise"], rel=0.1)
    assert "is for two classes" in str(run(monkeypatch, "denoise", str(path), "--loss", "hinge"))


def test_denoise(monkeypatch, capsys, tmp_path):
    t = np.arange(120)
    clean = 5 + np.cos(2 * np.pi * t / 12)
    y = clean + 0.05 * np.random.default_rng(0).standard_normal(120)
    path, out = tmp_path / "series.csv", tmp_path / "next.csv"
    path.write_text("month,level\n" + "\n".join(f"{k},{v:.4f}" if k != 30 else f"{k}," for k, v in enumerate(y)) + "\n")
    ahead = ["--forecast", "12", "--interval", "0.9"]
    assert run(monkeypatch, "denoise", str(path), *ahead, "--out", str(out)) == 0
    shown = capsys.readouterr().out
    assert "samples from 'level', 120 of them, 1 missing" in " ".join(shown.split())
    period = float(next(line for line in shown.splitlines() if line.startswith("│ 1")).split("│")[1])
    assert period == pytest.approx(12.0, abs=0.1)
    rows = np.genfromtxt(out, delimiter=",", names=True)
    assert len(rows) == 132
    ahead = 5 + np.cos(2 * np.pi * np.arange(120, 132) / 12)
    np.testing.assert_allclose(rows["signal"][120:], ahead, atol=0.1)
    assert (rows["lower"][120:] < rows["upper"][120:]).all()
    wider = ["--forecast", "3", "--interval", "0.95", "--report", str(tmp_path / "series.html")]
    assert run(monkeypatch, "denoise", str(path), *wider, "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert len(facts["forecast"]) == 3
    assert (np.subtract(facts["upper"], facts["lower"]) > (rows["upper"] - rows["lower"])[120:123]).all()
    assert "95 % of the next samples" in (tmp_path / "series.html").read_text(encoding="utf-8")


def test_denoise_without_intervals(monkeypatch, capsys, tmp_path):
    path, out = tmp_path / "series.csv", tmp_path / "next.csv"
    path.write_text("y\n" + "\n".join(f"{np.cos(t):.6f}" for t in range(14)) + "\n")
    assert run(monkeypatch, "denoise", str(path), "--forecast", "2", "--out", str(out), "--json") == 0
    assert out.read_text().splitlines()[0] == "sample,observed,signal"
    assert "lower" not in json.loads(capsys.readouterr().out)
    assert "needs --forecast" in str(run(monkeypatch, "denoise", str(path), "--interval", "0.9"))


def test_denoise_complex_samples_inputs_times_and_components(monkeypatch, capsys, tmp_path):
    t, rng = np.arange(120), np.random.default_rng(0)
    z = (0.99 * np.exp(0.3j)) ** t + 0.01 * (rng.standard_normal(120) + 1j * rng.standard_normal(120))
    u = rng.standard_normal(120)
    y = np.convolve(u, 0.8 ** np.arange(40))[:120] + 0.01 * rng.standard_normal(120)
    season = 10 + np.cos(2 * np.pi * t / 12) + 0.05 * rng.standard_normal(120)
    path, parts = tmp_path / "all.csv", tmp_path / "parts.csv"
    months = np.datetime64("2010-01") + t
    rows = [",".join(row) for row in np.column_stack([months.astype(str), z.real, z.imag, u, y, season])]

    def facts(*more):
        path.write_text("\n".join(["month,re,im,u,y,season", *rows]) + "\n")
        assert run(monkeypatch, "denoise", str(path), *more, "--json") == 0
        return json.loads(capsys.readouterr().out)

    assert facts("--column", "re", "--imaginary", "im")["order"] == 1
    assert facts("--column", "y", "--input", "u")["order"] == 1
    del rows[50]
    found = facts("--column", "season", "--time", "month", "--components", str(parts))
    assert (found["samples"], found["order"]) == (120, 3)  # the absent month counts
    assert parts.read_text().splitlines()[0] == "sample,trend,period 12"
    assert "cannot be combined with --input" in str(run(monkeypatch, "denoise", str(path), "--input", "u", "--log"))
    assert "--components cannot" in str(
        run(monkeypatch, "denoise", str(path), "--input", "u", "--components", str(tmp_path / "none.csv"))
    )
    bad = tmp_path / "bad.csv"
    bad.write_text("when,y\n" + "\n".join(f"day{k}x,{k}" for k in range(9)) + "\n")
    assert "times are numbers, or dates" in str(run(monkeypatch, "denoise", str(bad), "--time", "when"))


def test_denoise_keeps_small_swings_about_a_large_level(monkeypatch, tmp_path):
    y = 1e6 + np.cos(0.5 * np.arange(60)) + 0.05 * np.random.default_rng(0).standard_normal(60)
    path, out = tmp_path / "level.csv", tmp_path / "out.csv"
    path.write_text("y\n" + "\n".join(f"{v:.4f}" for v in y) + "\n")
    assert run(monkeypatch, "denoise", str(path), "--out", str(out)) == 0
    written = np.array([[float(cell) for cell in line.split(",")] for line in out.read_text().splitlines()[1:]])
    assert np.allclose(written[:, 1], y, rtol=0, atol=1e-3)
    assert np.std(written[:, 2]) > 0.5


def test_multitask(monkeypatch, capsys, tmp_path):
    rng = np.random.default_rng(0)
    X, tasks = 100 * rng.standard_normal((400, 4)) + 1e3, np.arange(400) % 20
    W = rng.standard_normal((20, 1)) @ rng.standard_normal((1, 4)) / 100
    y = (X * W[tasks]).sum(axis=1) + tasks + 0.1 * rng.standard_normal(400)
    path, model = tmp_path / "exams.csv", tmp_path / "m.rslm"
    lines = [
        f"school {t},{a:.6f},{b:.6f},{c:.6f},{d:.6f},x,{v:.6f}" for t, (a, b, c, d), v in zip(tasks, X, y, strict=True)
    ]
    path.write_text("school,a,b,c,d,word,score\n" + "\n".join(lines) + "\n")
    wanted = ["multitask", str(path), "--task", "school", "--target", "score", "--rank", "1", "--C", "10"]
    assert "column 'word' holds 'x'" in run(monkeypatch, *wanted)
    assert run(monkeypatch, *wanted, "--leave", "word", "--model", str(model), "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["tasks"] == 20
    assert facts["part_explained"] > 0.95
    fitted = rslm.load(model)  # for features as they are in the table
    found = fitted.predict(X, tasks=[f"school {t}" for t in tasks])
    assert np.mean((found - y) ** 2) < 0.1 * np.var(y)
    assert run(monkeypatch, *wanted, "--leave", "word", "--interval", "0.8", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["interval"] == 0.8
    assert facts["part_covered"] == pytest.approx(0.8, abs=0.15)  # of 100 rows: more than three deviations of 0.04
    width = np.subtract(*fitted.predict_interval(X, [f"school {t}" for t in tasks], 0.8)[::-1]).mean()
    assert facts["interval_width"] == pytest.approx(width, rel=0.05)  # of 100 rows rather than all
    assert run(monkeypatch, *wanted, "--leave", "word", "--interval", "0.999") == 0
    assert "No intervals: coverage=0.999 needs at least 999 held-out observations; there are 300" in " ".join(
        capsys.readouterr().out.split()
    )
    assert "coverage must be a number between 0 and 1" in run(monkeypatch, *wanted, "--interval", "90")


def test_rows_and_columns_without_ids_count_from_one_everywhere(monkeypatch, capsys, tmp_path):
    rng = np.random.default_rng(0)
    X = 3 + rng.standard_normal((12, 1)) @ rng.standard_normal((1, 7))
    lines = [",".join("" if rng.random() < 0.3 else f"{v:.3f}" for v in row) for row in X]
    (tmp_path / "panel.csv").write_text("\n".join(lines))
    (tmp_path / "pairs.csv").write_text("12,7\n1,1\n5,3\n")
    monkeypatch.chdir(tmp_path)
    wishes = ["--layout", "dense", "--no-header", "--rank", "2", "--C", "10", "--holdout", "0"]
    assert run(monkeypatch, "complete", "panel.csv", *wishes, "--model", "m", "--fill", "filled.csv") == 0
    capsys.readouterr()
    assert run(monkeypatch, "predict", "m", "pairs.csv") == 0
    found = [line.split(",") for line in capsys.readouterr().out.splitlines()[1:]]
    model = rslm.load("m")
    W = learned_rows(model)
    assert [(i, j) for i, j, _ in found] == [("12", "7"), ("1", "1"), ("5", "3")]
    np.testing.assert_allclose([float(w) for *_, w in found], [W[11, 6], W[0, 0], W[4, 2]], rtol=1e-5)
    empty = next((i, j) for i, line in enumerate(lines) for j, cell in enumerate(line.split(",")) if not cell)
    cell = (tmp_path / "filled.csv").read_text().splitlines()[1 + empty[0]].split(",")[1 + empty[1]]
    assert float(cell) == pytest.approx(W[empty], rel=1e-5)
    (tmp_path / "pairs.csv").write_text("0,1\n1,1\n")
    assert "a number from 1 to 12 is needed; got 0" in run(monkeypatch, "predict", "m", "pairs.csv")
    (tmp_path / "pairs.csv").write_text("13,1\n1,1\n")
    assert "a number from 1 to 12 is needed; got 13" in run(monkeypatch, "predict", "m", "pairs.csv")


def test_one_file_for_two_things(monkeypatch, ratings):
    path = str(ratings.parent / "one")
    assert "is named for two different outputs" in run(
        monkeypatch, "complete", str(ratings), "--model", path, "--fill", path
    )
    assert not (ratings.parent / "one").exists()


def test_what_is_read_is_not_overwritten(monkeypatch, ratings):
    before = ratings.read_bytes()
    for option in ("--model", "--fill", "--report", "--checkpoint"):
        error = run(monkeypatch, "complete", str(ratings), option, str(ratings), "--force")
        assert "is read by this command and would be overwritten" in error
    assert ratings.read_bytes() == before


def test_few_entries(monkeypatch, capsys, tmp_path):
    """Too few to hold any out, whether to test on or to find C."""
    (tmp_path / "few.csv").write_text("1,2,3\n2,4,\n")
    assert run(monkeypatch, "complete", str(tmp_path / "few.csv"), "--json") == 0
    assert json.loads(capsys.readouterr().out)["entries"] == 5


def test_nothing_is_left_to_recommend(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "all.csv").write_text("1,2,3\n2,4,6\n3,6,9.5\n1,1,2\n")
    assert run(monkeypatch, "complete", "all.csv", "--layout", "dense", "--C", "10", "--rank", "1", "--model", "m") == 0
    capsys.readouterr()
    assert run(monkeypatch, "recommend", "m", "--for", "2") == 0
    assert "Nothing is left to recommend for 2" in capsys.readouterr().out


@pytest.mark.parametrize("first", ["who,what", "user 77,film 1", "99,98"])
def test_unknown_pairs_are_predicted_by_what_is_known(monkeypatch, capsys, ratings, first):
    model, _ = completed(monkeypatch, ratings, "--interval", "0.5")
    fitted = rslm.load(model)
    pairs = ratings.parent / "pairs.csv"
    pairs.write_text(f"{first}\nuser 3,film 4\nuser 5,nothing\n")
    capsys.readouterr()
    assert run(monkeypatch, "predict", str(model), str(pairs), "--interval", "0.5") == 0
    said = capsys.readouterr()
    assert "2 of 3 pairs have a row or a column that the model does not know, first" in said.err.replace("\n", " ")
    lines = [line.split(",") for line in said.out.strip().splitlines()][1:]
    wanted = fitted.predict(
        [first.split(",")[0], "user 3", "user 5"], [first.split(",")[1], "film 4", "x"], unseen="mean"
    )
    np.testing.assert_allclose([float(line[2]) for line in lines], wanted, rtol=1e-5)
    assert lines[2][3:] == ["", ""]  # no interval
    assert float(lines[1][3]) < float(lines[1][2])
    pairs.write_text("who,what\n1,2\n")
    error = run(monkeypatch, "predict", str(model), str(pairs))
    assert "no row and no column that the model knows: it has 40 rows, such as 'user 0'" in error
    assert "different ids" not in error


def test_ids_that_look_like_markup(monkeypatch, capsys, tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"[bold]u{i},a[/b]{j},{rng.random():.2f}" for i in range(8) for j in range(6) if rng.random() < 0.8]
    (tmp_path / "r[x].csv").write_text("user,item[/i],rating\n" + "\n".join(lines))
    monkeypatch.chdir(tmp_path)
    wishes = ["--C", "1", "--rank", "2", "--cols", "2", "--model", "m"]
    assert run(monkeypatch, "complete", "r[x].csv", *wishes) == 0
    assert "item[/i]" in capsys.readouterr().out
    assert run(monkeypatch, "recommend", "m", "--for", "[bold]u1", "--similar") == 0
    assert "[bold]u2" in capsys.readouterr().out


def test_info_tells_rank_and_limit(monkeypatch, capsys, ratings):
    model = ratings.parent / "m"
    assert run(monkeypatch, "complete", str(ratings), "--rank", "9", "--C", "0.3", "--model", str(model)) == 0
    capsys.readouterr()
    assert run(monkeypatch, "info", str(model), "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["rank"], facts["limit_on_the_rank"]) == (rslm.load(model).rank_, 9)
    assert facts["rank"] < 9


def test_json_knows_no_infinity(monkeypatch, capsys, tmp_path):
    (tmp_path / "y.csv").write_text("t,y\n" + "\n".join(f"{t},{1.5**t:.6g}" for t in range(40)))
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, "denoise", "y.csv", "--forecast", "3000", "--json") == 0
    out = capsys.readouterr().out
    facts = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert len(facts["forecast"]) == 3000


def test_certify_finds_columns_by_their_ids(monkeypatch, capsys, ratings):
    model, _ = completed(monkeypatch, ratings)
    lines = ratings.read_text().splitlines()
    fewer = ratings.parent / "fewer.csv"
    fewer.write_text("\n".join([lines[0], *(line for line in lines[1:] if "film 1" not in line)]))
    capsys.readouterr()
    assert run(monkeypatch, "certify", str(model), str(fewer), "--json") == 0
    assert json.loads(capsys.readouterr().out)["primal"] > 0
    other = ratings.parent / "other.csv"
    other.write_text("user,item,rating\na,Alien,3\nb,Alien,4\na,Brazil,2\n")
    assert "Alien" in run(monkeypatch, "certify", str(model), str(other))


def test_task_and_target_are_two_columns(monkeypatch, tmp_path):
    (tmp_path / "t.csv").write_text("g,a,b\n1,2,3\n1,3,4\n2,4,5\n2,5,7\n")
    monkeypatch.chdir(tmp_path)
    assert "both the task and the target" in run(monkeypatch, "multitask", "t.csv", "--task", "g", "--target", "g")


def test_a_fit_that_is_worse_than_the_mean_says_so(monkeypatch, capsys, tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{i},{j},{5 + rng.standard_normal():.3f}" for i in range(30) for j in range(30) if rng.random() < 0.2]
    (tmp_path / "noise.csv").write_text("user,item,rating\n" + "\n".join(lines))
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, "complete", "noise.csv", "--C", "1e6", "--rank", "8", "--max-time", "2") == 0
    shown = capsys.readouterr().out.replace("\n", " ")
    assert "the mean predicts held-out entries better" in shown or "effects alone predict held-out entries" in shown


def test_a_prepared_folder_is_taken_like_a_file(monkeypatch, capsys, ratings):
    monkeypatch.chdir(ratings.parent)
    assert run(monkeypatch, "prepare", "ratings.csv", "folder", "--json") == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 40
    assert "exists" in run(monkeypatch, "prepare", "ratings.csv", "folder")
    assert run(monkeypatch, "prepare", "ratings.csv", "folder", "--force") == 0
    found = []
    for data in ("ratings.csv", "folder"):
        capsys.readouterr()
        assert run(monkeypatch, "complete", data, "--C", "30", "--rank", "3", "--model", f"{data}.rslm", "--json") == 0
        found.append(json.loads(capsys.readouterr().out)["held_out_RMSE"])
    assert found[0] == pytest.approx(found[1], rel=1e-4)  # one has its values in single precision
    assert run(monkeypatch, "recommend", "folder.rslm", "--for", "user 3", "--known", "folder") == 0
    assert run(monkeypatch, "certify", "folder.rslm", "folder") == 0


def test_too_few_held_out_entries_are_not_blamed_on_the_pairs(monkeypatch, tmp_path):
    model, pairs = tmp_path / "m.rslm", tmp_path / "pairs.csv"
    X = np.random.default_rng(0).standard_normal((12, 10))
    fitted = rslm.MatrixCompletion(1, 1.0, random_state=0).fit(X)
    fitted.predict_interval([0], [0])
    fitted.save(model)
    pairs.write_text("1,1\n2,2\n")
    said = str(run(monkeypatch, "predict", str(model), str(pairs), "--interval", "0.999"))
    assert "needs at least 999 held-out observations" in said
    assert "--header" not in said


@pytest.mark.parametrize("delimiter", ["\\t", "tab", "\t"])
def test_ways_to_write_a_tab(monkeypatch, capsys, ratings, delimiter):
    table = ratings.parent / "ratings.txt"
    table.write_text(ratings.read_text().replace(",", "\t"))
    wishes = ["--delimiter", delimiter, "--rank", "2", "--C", "1"]
    assert run(monkeypatch, "complete", str(table), *wishes) == 0
    assert "separated by tab" in capsys.readouterr().out


@pytest.mark.parametrize("more", [["--C", "1"], ["--implicit"]])
def test_a_rank_above_the_size_is_refused(monkeypatch, ratings, more):
    if more == ["--implicit"]:
        ratings.write_text(ratings.read_text().replace("-", ""))
    error = run(monkeypatch, "complete", str(ratings), "--rank", "31", *more)
    assert "rank must be a whole number from 1 to 30" in error


def test_the_option_for_repeated_entries_is_named(monkeypatch, ratings):
    ratings.write_text(ratings.read_text() + "user 1,film 1,3\n")
    assert "--duplicates last" in run(monkeypatch, "complete", str(ratings))
