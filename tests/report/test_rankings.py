"""The report of recommendations."""

import matplotlib as mpl

from clicks import clicks
from rslm import ImplicitCompletion, ObservedMatrix
from rslm.evaluate import holdout_per_user
from rslm.report import implicit_report, plot_path
from rslm.report.rankings import ranking_facts

mpl.use("Agg")
TRAIN, TEST = holdout_per_user(ObservedMatrix.from_any(clicks(40, 30)), 0.2, 0)


def test_settings_that_were_found():
    model = ImplicitCompletion(rank=3, random_state=0).fit(TRAIN)
    ax = plot_path(model)
    assert ax.get_ylabel() == "ndcg@100 of held-out items"
    labels = [line.get_label() for line in ax.get_lines()]
    assert labels == ["rank 3", "best so far", "found", "popularity"]
    found = ax.get_lines()[2]
    assert found.get_ydata()[0] == model.held_out_["model"]
    page = implicit_report(model, TRAIN, TEST, title="Clicks", how="generated")
    learned, popular = ranking_facts(model, TRAIN, TEST)["ndcg@100"]
    assert learned > popular
    assert f"{learned:.4g}" in page
    assert f"{popular:.4g}" in page
    assert "times as well as popularity does" in page
    assert "class='warning'" not in page


def test_a_model_that_is_no_better_than_popularity(monkeypatch):
    model = ImplicitCompletion(rank=1, C=1.0, alpha0=0.2, weighting=0.0, random_state=0).fit(TRAIN)
    made = {"recall@20": (0.1, 0.2), "ndcg@100": (0.4, 0.3)}
    monkeypatch.setattr("rslm.report.rankings.ranking_facts", lambda *data: made)
    page = implicit_report(model, TRAIN, TEST)
    assert "class='warning'" in page
    assert "no better than popularity does, by recall@20. Do not rely on it" in page


def test_nothing_was_searched_and_nothing_held_out():
    page = implicit_report(ImplicitCompletion(rank=1, C=1.0, alpha0=0.2, weighting=0.0).fit(TRAIN), TRAIN)
    assert "Held-out items" not in page
    assert "Settings that were found" not in page
