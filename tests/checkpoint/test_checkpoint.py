"""A fit that was stopped goes on from its checkpoint, to bitwise the same answer; anything else is refused."""

import errno
import json
import logging
import os
import random
import re
import signal
import subprocess
import sys
import tempfile

import numpy as np
import pytest
from scipy import sparse

import rslm
from plain import WITH_EFFECTS, plain_completion
from rslm import (
    HankelModel,
    InductiveCompletion,
    MatrixCompletion,
    MultiTaskClassifier,
    MultiTaskRegressor,
    Problem,
    ReducedRankRegressor,
    solve,
)
from rslm.checkpoint import file as checkpoint
from rslm.evaluation.objective import Objective
from rslm.losses import Absolute, Huber, Logistic, Loss, Square
from rslm.measurements import Bilinear, Entries, Samples, Tasks
from rslm.solvers import Outcome, loop
from rslm.storage.atomic import unfinished_prefix
from rslm.storage.container import read_container, write_container
from rslm.structures import Box, Hankel, Linear, Symmetric

RNG = np.random.default_rng(3)


def ratings(d=40, T=60, rank=4, noise=0.5, part=0.2, seed=0):
    rng = np.random.default_rng(seed)
    Y = rng.standard_normal((d, rank)) @ rng.standard_normal((rank, T)) + noise * rng.standard_normal((d, T))
    return np.where(rng.random((d, T)) < part, Y, np.nan)


def series(n=80):
    rng, t = np.random.default_rng(1), np.arange(n)
    y = np.sin(0.4 * t) + 0.5 * np.cos(1.1 * t) + 0.2 * rng.standard_normal(n)
    y[10:14] = np.nan
    return y


def tasks(loss_of_two=False):
    rng = np.random.default_rng(2)
    X, of = rng.standard_normal((240, 8)), np.repeat(np.arange(12), 20)
    W = rng.standard_normal((8, 2)) @ rng.standard_normal((2, 12))
    y = np.einsum("ij,ji->i", X, W[:, of]) + 0.5 * rng.standard_normal(240)
    return Tasks(X, np.sign(y) if loss_of_two else y, of, intercept=True)


def symmetric():
    rng = np.random.default_rng(4)
    A = rng.standard_normal((20, 2))
    Y = A @ A.T + 0.1 * rng.standard_normal((20, 20))
    return np.where(rng.random((20, 20)) < 0.5, Y, np.nan)


Y = ratings()
SIGNS = np.where(np.isnan(Y), np.nan, np.where(Y > 0.3, 1.0, -1.0))
SPARSE_FEATURES = sparse.random_array((40, 5), density=0.5, random_state=np.random.default_rng(5), format="csr")

KINDS = {
    "square": (lambda: Problem(Square(), Entries(Y), C=30.0), {"rank": 5}),
    "large C": (lambda: Problem(Square(), Entries(Y), C=1e5), {"rank": 5}),
    "weighted": (lambda: Problem(Square(), Entries(Y), C=10.0, row_weights=np.linspace(1, 2, 40)), {}),
    "conjugate gradient": (lambda: Problem(Square(), Entries(Y), C=1.0), {"solver": "conjugate-gradient"}),
    "given start": (lambda: Problem(Square(), Entries(Y), C=1.0), {"start": np.eye(40, 3)}),
    "huber": (lambda: Problem(Huber(0.5), Entries(Y), C=10.0), {"rank": 5}),
    "absolute": (lambda: Problem(Absolute(), Entries(Y), C=10.0), {}),
    "logistic": (lambda: Problem(Logistic(), Entries(SIGNS), C=30.0), {"rank": 5}),
    "bounds": (lambda: Problem(Square(), Entries(Y + 1.0), Box(0.0, None), C=3.0), {}),
    "bounds, huber": (lambda: Problem(Huber(0.5), Entries(Y + 1.0), Box(0.0, None), C=1.0), {"tol": 1e-3, "rank": 2}),
    "tasks": (lambda: Problem(Square(), tasks(), C=10.0), {}),
    "tasks, logistic": (lambda: Problem(Logistic(), tasks(True), C=1.0), {}),
    "features": (lambda: Problem(Square(), Bilinear(Y, rows=SPARSE_FEATURES), C=30.0), {}),
    "hankel": (lambda: Problem(Square(), Samples(series()), Hankel(20, 61), C=1e3), {}),
    "symmetric": (lambda: Problem(Square(), Entries(symmetric()), Symmetric(20), C=1e2), {"rank": 2}),
}


def solved(kind, **more):
    make, options = KINDS[kind]
    return solve(make(), **{"rank": 3, "random_state": 0, "n_threads": 1} | options | more)


def check_same(a, b):
    for name in ("U", "V", "parameters", "intercepts"):
        one, other = getattr(a, name), getattr(b, name)
        assert (one is None) == (other is None)
        if one is not None:
            assert one.tobytes() == other.tobytes(), name
    assert (a.value, a.outcome, a.n_iter) == (b.value, b.outcome, b.n_iter)
    assert repr(a.certificate) == repr(b.certificate)
    assert a.history.keys() == b.history.keys()
    assert a.history["relaxations"] == b.history["relaxations"]
    for name in a.history.keys() - {"seconds", "relaxations"}:
        np.testing.assert_array_equal(a.history[name], b.history[name], err_msg=name)
    assert (np.diff(b.history["seconds"]) >= 0).all()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fit.checkpoint"


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """These fits are short: going on in the middle of a stage has to be possible in them, too."""
    monkeypatch.setattr(loop, "COLD_START_EVERY", 4)


# ---- going on -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_stopped_after_any_iteration(kind, path):
    """By the limit of iterations, again and again, until it ends."""
    whole = solved(kind, checkpoint=path)
    path.unlink()
    steps = sorted({1, 2, 3, 5, 8, *range(20, whole.n_iter, 17), whole.n_iter - 1} - {0})
    for most in [n for n in steps if n < whole.n_iter]:
        part = solved(kind, checkpoint=path, max_iter=most)
        assert part.n_iter == most
    check_same(whole, solved(kind, checkpoint=path))


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_that_has_ended(kind, path):
    """The same again gives the same answer, without an iteration, and leaves the file as it is."""
    whole = solved(kind, checkpoint=path)
    before, heard = path.read_bytes(), []
    again = solved(kind, checkpoint=path, callback=heard.append)
    check_same(whole, again)
    np.testing.assert_array_equal(again.history["seconds"], whole.history["seconds"])
    assert heard == []
    assert path.read_bytes() == before


def test_without_a_checkpoint_nothing_is_different(path):
    """Where nothing is remembered from point to point, a checkpoint does not change a number."""
    for kind in ("square", "large C", "conjugate gradient", "tasks"):
        check_same(solved(kind), solved(kind, checkpoint=path))
        path.unlink()


@pytest.mark.parametrize("kind", ["square", "absolute", "bounds"])
def test_stopped_by_a_callback_and_by_time(kind, path):
    """Every call has its own time, so that a fit can go on in slots; the history counts them all."""
    whole = solved(kind, checkpoint=path)
    path.unlink()
    stopped = solved(kind, checkpoint=path, callback=lambda p: p.iteration == 6)
    assert stopped.outcome is Outcome.INTERRUPTED
    spent = stopped.history["seconds"][-1]
    assert solved(kind, checkpoint=path, max_time=1e-9).outcome is Outcome.TIME
    again = solved(kind, checkpoint=path, max_time=1e3)
    check_same(whole, again)
    assert again.history["seconds"][-1] > spent


@pytest.mark.parametrize("first", [None, np.eye(40, 3)], ids=["from the data", "from a point"])
def test_a_start_does_not_matter_any_more(first, path):
    """A model that starts where its last fit has ended gives another one each time."""
    problem = Problem(Square(), Entries(Y), C=3e4)
    whole = solve(problem, 3, random_state=0, checkpoint=path, start=first)
    path.unlink()
    solve(problem, 3, random_state=0, checkpoint=path, start=first, max_iter=5)
    other = np.ones((40, 3)) if first is None else None
    check_same(whole, solve(problem, 3, random_state=0, checkpoint=path, start=other))


def test_other_threads_and_limits(path):
    whole = solved("huber", checkpoint=path)
    path.unlink()
    solved("huber", checkpoint=path, max_iter=5, n_threads=2)
    check_same(whole, solved("huber", checkpoint=path, max_iter=whole.n_iter, n_threads=2, max_time=1e3))


def test_a_limit_that_is_met_where_a_stage_ends(path):
    """The method of a stage that goes on to a smaller tolerance is not lost."""
    whole = solved("bounds", checkpoint=path)
    ended = [iteration for _, iteration in read_container(path, checkpoint.CHECKPOINT)[0]["ended"]]
    for most in ended[:-1]:
        path.unlink()
        solved("bounds", checkpoint=path, max_iter=most)
        check_same(whole, solved("bounds", checkpoint=path))


@pytest.mark.parametrize("kind", ["square", "huber"])
def test_patience_goes_on_too(kind, path):
    """A fit that ends because nothing has improved for a while does so after the same iteration."""
    whole = solved(kind, checkpoint=path, tol=0.0)
    assert whole.outcome is Outcome.STALLED
    path.unlink()
    solved(kind, checkpoint=path, tol=0.0, max_iter=whole.n_iter - 1)
    check_same(whole, solved(kind, checkpoint=path, tol=0.0))


def test_the_start_is_not_looked_for_again(path, monkeypatch):
    """Nor are seeds compared of which nothing is known."""
    solved("square", checkpoint=path, max_iter=3, random_state=None)
    monkeypatch.setattr(Objective, "guess", None)
    first = solved("square", checkpoint=path, random_state=None)
    assert first.outcome is Outcome.STATIONARY
    check_same(first, solved("square", checkpoint=path, random_state=np.random.default_rng(1)))


def test_writing_takes_a_small_part_of_the_time(path, monkeypatch):
    """The first state is written at once, and the last one where a fit is stopped."""
    now, written = [0.0], []

    def write(_, __, facts, ___, **____):
        now[0] += 1.0
        written.append(facts["iteration"])

    monkeypatch.setattr(checkpoint, "write_container", write)
    monkeypatch.setattr(checkpoint.time, "perf_counter", lambda: now[0])

    def told(progress):
        now[0] += 5.0
        return progress.iteration == 11

    solved("square", checkpoint=path, tol=0.0, callback=told)
    assert written == [0, 4, 8, 11]  # 20 seconds after a second of writing


def test_what_is_logged(path, caplog):
    solved("square", checkpoint=path, max_iter=3)
    assert not caplog.records
    with caplog.at_level(logging.INFO, "rslm"):
        solved("square", checkpoint=path)
    assert re.fullmatch(r"resuming from .*fit\.checkpoint: iteration 3, 0 s so far", caplog.messages[0])


def test_interrupted_by_the_user(path):
    """Ctrl-C ends the fit after the step that it is at; the same call goes on."""
    whole = solved("square", checkpoint=path)
    path.unlink()

    def told(progress):
        if progress.iteration == 3:
            signal.raise_signal(signal.SIGINT)

    assert solved("square", checkpoint=path, callback=told).outcome is Outcome.INTERRUPTED
    check_same(whole, solved("square", checkpoint=path))


# ---- killed -------------------------------------------------------------------------------------------------

KILLED = """
import json, os, random, signal, sys, time, warnings
from pathlib import Path
import numpy as np
from rslm import MatrixCompletion
from rslm.checkpoint.file import iterations_and_seconds

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = np.einsum("ik,jk->ij", rng.standard_normal((300, 5)), rng.standard_normal((200, 5)))
X = np.where(rng.random(X.shape) < 0.3, X + rng.standard_normal(X.shape), np.nan)

def started(path):
    child = os.fork()
    if child == 0:
        model = MatrixCompletion(5, 1e3, effects=None, weighting=0, loss="absolute", random_state=0, n_threads=1)
        model.set_params(tol=1e-8, max_iter=200)
        model.fit(X, checkpoint=path)
        history = model.history_ | {"relaxations": np.array([repr(r) for r in model.history_["relaxations"]])}
        np.savez(f"{path}.npz", row=model.row_factors_, col=model.col_factors_, **history)
        os._exit(0)
    return child

def stamp():
    return os.stat("parts").st_mtime_ns if os.path.exists("parts") else 0

assert os.waitpid(started("whole"), 0)[1] == 0
reached, chance = [], random.Random(0)
while not Path("parts.npz").exists():
    before, child, ended = stamp(), started("parts"), (0, 0)
    while stamp() == before and not ended[0]:  # as soon as it has come a little further
        ended = os.waitpid(child, os.WNOHANG)
    if not ended[0] and len(reached) < 6:
        time.sleep(chance.uniform(0.0, 0.02))
        os.kill(child, signal.SIGKILL)
        reached.append(iterations_and_seconds("parts")[0])
    if not ended[0]:
        os.waitpid(child, 0)
print(json.dumps(reached))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that begin in the middle")
def test_killed_at_any_moment(tmp_path):
    """Kill -9, again and again, then left alone: bitwise the same as a fit that was left alone from the start."""
    command = [sys.executable, "-c", KILLED]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    reached = json.loads(done.stdout)
    assert len(reached) > 3
    assert reached == sorted(reached)
    assert reached[-1] > 0  # it did go on
    with np.load(tmp_path / "whole.npz") as one, np.load(tmp_path / "parts.npz") as other:
        for name in set(one.files) - {"seconds"}:
            assert one[name].tobytes() == other[name].tobytes(), name
    assert sorted(p.name for p in tmp_path.iterdir()) == ["parts", "parts.npz", "whole", "whole.npz"]


def test_what_a_killed_process_leaves_is_taken_away(path):
    (path.parent / f"{unfinished_prefix(path)}1.x.unfinished").write_bytes(b"half")
    solved("square", checkpoint=path)
    assert [p.name for p in path.parent.iterdir()] == [path.name]


# ---- another fit --------------------------------------------------------------------------------------------


class Own(Loss):
    """Whose name does not show its parameter."""

    def __init__(self, factor):
        self.factor = factor

    def value(self, y, w):
        return self.factor * (y - w) ** 2

    def gradient(self, y, w):
        return 2 * self.factor * (w - y)

    def hessian(self, y, w):
        return np.full_like(y, 2 * self.factor)

    def conjugate(self, y, s):
        return s * y + s**2 / (4 * self.factor)


def changed(Y, value=None):
    """The same data but for one entry: its value, or its place."""
    Y, at = Y.copy(), tuple(np.argwhere(~np.isnan(Y))[7])
    if value is None:
        Y[tuple(np.argwhere(np.isnan(Y))[3])] = Y[at]
        Y[at] = np.nan
    else:
        Y[at] = value
    return Y


def linear(factor):
    return Linear((40, 60), 2400, lambda w: factor * w.reshape(40, 60), lambda W: factor * W.ravel())


def of_tasks(change=0.0, intercept=True):
    X, y = np.arange(40.0).reshape(20, 2) % 7, np.arange(20.0) % 3
    X[3, 1] += change
    return Tasks(X, y, np.repeat([0, 1, 2, 3], 5), intercept=intercept)


def sides(change=0.0, side="rows"):
    features = SPARSE_FEATURES.toarray()
    features[2, 2] += change
    return Bilinear(Y if side == "rows" else Y.T, **{side: features})


WEIGHTS = np.ones(40)
DIFFERENT = {
    "C": ({"C": 20.0}, {}, "C: 1.0 in the checkpoint, 20.0 now"),
    "loss": ({"loss": Huber(0.1)}, {}, r"loss: Square\(\) in the checkpoint, Huber\(.*0.1\) now"),
    "value": ({"data": Entries(changed(Y, 3.0))}, {}, r"values: \w{8} in the checkpoint, \w{8} now"),
    "place": ({"data": Entries(changed(Y))}, {}, r"positions: .* in the checkpoint"),
    "shape": ({"data": Entries(Y[:39])}, {}, "shape: 40 × 60 in the checkpoint, 39 × 60 now"),
    "one less": ({"data": Entries(changed(Y, np.nan))}, {}, r"observations: \d+ in the checkpoint, \d+ now"),
    "bounds": (
        {"structure": Box(-50.0, None)},
        {},
        r"bounds or structure: none in the checkpoint, Box\(-50, None\) now",
    ),
    "row weights": ({"row_weights": WEIGHTS}, {}, "weighting of rows: none in the checkpoint"),
    "column weights": ({"column_weights": np.ones(60)}, {}, "weighting of columns: none in the checkpoint"),
    "rank": ({}, {"rank": 2}, "rank: 3 in the checkpoint, 2 now"),
    "solver": ({}, {"solver": "conjugate-gradient"}, "solver: trust-region in the checkpoint, conjugate-gradient now"),
    "tol": ({}, {"tol": 1e-3}, "tol: 1e-06 in the checkpoint, 0.001 now"),
    "seed": ({}, {"random_state": 1}, "random state: 0 in the checkpoint, 1 now"),
}
PLAIN = {"loss": Square(), "data": Entries(Y), "C": 1.0}
PAIRS = {
    "numbers of bounds": ({"structure": Box(-WEIGHTS[:, None], None)}, {"structure": Box(-2 * WEIGHTS[:, None], None)}),
    "a digit of bounds": ({"structure": Box(-50.0, None)}, {"structure": Box(-50.0000001, None)}),
    "weights": ({"row_weights": WEIGHTS}, {"row_weights": WEIGHTS + np.eye(40)[3]}),
    "own loss": ({"loss": Own(1.0)}, {"loss": Own(2.0)}),
    "own structure": ({"structure": linear(1.0)}, {"structure": linear(2.0)}),
    "features of tasks": ({"data": of_tasks()}, {"data": of_tasks(1.0)}),
    "intercepts of tasks": ({"data": of_tasks()}, {"data": of_tasks(intercept=False)}),
    "features of rows": ({"data": sides()}, {"data": sides(1.0)}),
    "features of columns": ({"data": sides(side="cols")}, {"data": sides(1.0, "cols")}),
    "sample": (
        {"data": Samples(series()), "structure": Hankel(20, 61)},
        {"data": Samples(changed(series()[None])[0]), "structure": Hankel(20, 61)},
    ),
}


def refused(path, message, **more):
    """A ValueError that names the file and says what to do; the file stays as it is."""
    before = path.read_bytes()
    options = {"rank": 3, "random_state": 0, "problem": Problem(**PLAIN)} | more
    with pytest.raises(ValueError, match=re.escape(path.name)) as caught:
        solve(**options, checkpoint=path)
    assert re.search(message, str(caught.value)), str(caught.value)
    assert "give another path" in str(caught.value)
    assert path.read_bytes() == before
    return str(caught.value)


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_checkpoint_of_another_fit(name, path):
    problem, options, message = DIFFERENT[name]
    solve(Problem(**PLAIN), 3, random_state=0, checkpoint=path, max_iter=2)
    refused(path, message, problem=Problem(**PLAIN | problem), **options)


@pytest.mark.parametrize("name", PAIRS)
def test_what_a_name_does_not_show(name, path):
    one, other = PAIRS[name]
    options = {"rank": 2, "random_state": 0}
    solve(Problem(**PLAIN | one), **options, checkpoint=path, max_iter=1)
    assert solve(Problem(**PLAIN | one), **options, checkpoint=path, max_iter=2).n_iter <= 2
    refused(path, "in the checkpoint", problem=Problem(**PLAIN | other), **options)


def test_all_differences_are_told(path):
    solve(Problem(**PLAIN), 3, random_state=0, checkpoint=path, max_iter=2)
    told = refused(path, "C: ", problem=Problem(**PLAIN | {"C": 3.0}), rank=4, random_state=7)
    assert told.count("in the checkpoint") == 3


# ---- no whole checkpoint --------------------------------------------------------------------------------------


def test_any_damaged_byte(path):
    """Each byte in turn, of the zip file's own, too."""
    solve(Problem(**PLAIN), 1, random_state=0, checkpoint=path, max_iter=2)
    whole = path.read_bytes()
    rng = random.Random(0)
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << rng.randrange(8))]) + whole[at + 1 :])
        with pytest.raises(ValueError, match=re.escape(path.name)):
            checkpoint.iterations_and_seconds(path)
    path.write_bytes(whole[:-9] + b"?" + whole[-8:])
    refused(path, "damaged|changed", rank=1)


@pytest.mark.parametrize("part", [0.0, 0.001, 0.3, 0.9, 0.999])
def test_cut_short(path, part):
    solve(Problem(**PLAIN), 3, random_state=0, checkpoint=path, max_iter=2)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(part * len(whole))])
    with pytest.raises(ValueError, match=re.escape(path.name)):
        solve(Problem(**PLAIN), 3, random_state=0, checkpoint=path)
    assert len(path.read_bytes()) == int(part * len(whole))


def test_something_else(path):
    path.write_text("precious")
    with pytest.raises(ValueError, match="not a checkpoint of rslm"):
        solve(Problem(**PLAIN), 3, checkpoint=path)
    assert path.read_text() == "precious"
    plain_completion(2, C=1.0).fit(Y).save(path)
    with pytest.raises(ValueError, match="not a checkpoint of rslm"):
        solve(Problem(**PLAIN), 3, checkpoint=path)
    rslm.load(path)
    path.unlink()
    solve(Problem(**PLAIN), 3, checkpoint=path)
    with pytest.raises(ValueError, match="not a model of rslm"):
        rslm.load(path)


def test_another_version(path):
    solve(Problem(**PLAIN), 3, random_state=0, checkpoint=path)
    facts, arrays = read_container(path, checkpoint.CHECKPOINT)
    facts["settings"]["version of rslm"] = "0.0.1"
    write_container(path, checkpoint.CHECKPOINT, facts, arrays)
    refused(path, "version of rslm: 0.0.1 in the checkpoint")
    write_container(path, checkpoint.CHECKPOINT, facts | {"version": 99}, arrays)
    with pytest.raises(ValueError, match="format version 99"):
        solve(Problem(**PLAIN), 3, checkpoint=path)


DAMAGED = {
    "no point": lambda _, arrays: arrays.pop("U"),
    "a point elsewhere": lambda _, arrays: arrays.update(U=2 * arrays["U"]),
    "a point of another shape": lambda _, arrays: arrays.update(U=arrays["U"].T),
    "no numbers": lambda _, arrays: arrays.update(U=arrays["U"] * np.nan),
    "too few records": lambda _, arrays: arrays.update(records=arrays["records"][:, 1:]),
    "records as text": lambda _, arrays: arrays.update(records=arrays["records"].astype(str)),
    "no end of a stage": lambda facts, _: facts.update(ended=[["stationary", 1]]),
    "another end": lambda facts, _: facts.update(ended=[["happy", 1]]),
    "no iteration": lambda facts, _: facts.pop("iteration"),
    "time that flows back": lambda facts, _: facts.update(seconds=-1.0),
    "no settings": lambda facts, _: facts.pop("settings"),
    "no patience": lambda facts, _: facts["present"].pop("patience"),
    "no radius": lambda facts, _: facts["present"]["method"].pop("radius"),
    "half a step": lambda facts, _: facts["present"]["method"].update(opening_steps=0.5),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_parts_that_are_missing_or_wrong(kind, path):
    """With a checksum that is right."""
    solve(Problem(**PLAIN), 3, random_state=0, checkpoint=path, max_iter=2)
    facts, arrays = read_container(path, checkpoint.CHECKPOINT)
    DAMAGED[kind](facts, arrays)
    write_container(path, checkpoint.CHECKPOINT, facts, arrays)
    before = path.read_bytes()
    refused(path, "is damaged: .* is missing or wrong. Delete it")
    assert path.read_bytes() == before


# ---- where none can be written ----------------------------------------------------------------------------------


def test_errors_come_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(Objective, "guess", None)  # which would be called next
    with pytest.raises(FileNotFoundError, match="nowhere"):
        solve(Problem(**PLAIN), 3, checkpoint=tmp_path / "nowhere" / "file")
    with pytest.raises(IsADirectoryError, match="name a file in it"):
        solve(Problem(**PLAIN), 3, checkpoint=tmp_path)

    def denied(**_):
        raise PermissionError(errno.EACCES, "Permission denied", "a temporary file")

    monkeypatch.setattr(
        tempfile, "NamedTemporaryFile", denied
    )  # the superuser, who may run the tests, is never denied anything
    with pytest.raises(PermissionError, match=r"no checkpoint can be written: '.*/file'"):
        solve(Problem(**PLAIN), 3, checkpoint=tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk(path, monkeypatch):
    """An error, and the file of before stays whole: with room again, the fit goes on from it."""
    whole = solved("large C", checkpoint=path)
    path.unlink()
    solved("large C", checkpoint=path, max_iter=9)
    before = path.read_bytes()

    def full(file, **_):
        file.write(b"half of it")
        file.flush()
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", full)
        with pytest.raises(OSError, match=r"No space left on device; nothing was written: '.*fit\.checkpoint'"):
            solved("large C", checkpoint=path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]
    check_same(whole, solved("large C", checkpoint=path))


# ---- estimators -------------------------------------------------------------------------------------------------

X, GROUPS = RNG.standard_normal((120, 6)), np.repeat(np.arange(6), 20)
TARGETS = np.einsum("ij,ji->i", X, (RNG.standard_normal((6, 2)) @ RNG.standard_normal((2, 6)))[:, GROUPS])
OPTIONS = {"random_state": 0, "tol": 1e-9}
ESTIMATORS = {
    "completion": (lambda **o: plain_completion(4, 30.0, **OPTIONS | o), (Y,), {}),
    "effects": (lambda **o: MatrixCompletion(4, 30.0, **WITH_EFFECTS | OPTIONS | o), (Y,), {}),
    "automatic": (lambda **o: MatrixCompletion(C=30.0, **OPTIONS | o), (Y,), {}),
    "wide completion": (lambda **o: plain_completion(4, 30.0, weighting=0.5, **OPTIONS | o), (Y.T,), {}),
    "bounds": (lambda **o: plain_completion(3, 3.0, bounds=(-20, 20), **OPTIONS | o), (Y,), {}),
    "side information": (lambda **o: InductiveCompletion(3, **OPTIONS | o), (Y,), {"row_features": SPARSE_FEATURES}),
    "regressions": (
        lambda **o: MultiTaskRegressor(2, 10.0, effects=None, **OPTIONS | o),
        (X, TARGETS),
        {"tasks": GROUPS},
    ),
    "classes": (
        lambda **o: MultiTaskClassifier(2, 1.0, effects=None, **OPTIONS | o),
        (X, np.digitize(TARGETS, [-1, 1])),
        {},
    ),
    "targets": (lambda **o: ReducedRankRegressor(2, 1.0, effects=None, **OPTIONS | o), (X, X[:, :4] ** 2), {}),
    "targets, missing": (
        lambda **o: ReducedRankRegressor(2, 1.0, effects=None, **OPTIONS | o),
        (X, changed(X[:, :4], np.nan)),
        {},
    ),
    "series": (lambda **o: HankelModel(4, 100.0, tol=1e-9, **o), (series(),), {}),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:.*no observed:UserWarning")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators(name, path):
    make, given, more = ESTIMATORS[name]
    whole = make().fit(*given, **more, checkpoint=path)
    path.unlink()
    make(max_iter=3).fit(*given, **more, checkpoint=path)
    again = make().fit(*given, **more, checkpoint=path)
    assert whole.n_iter_ > 3
    for attribute in ("row_factors_", "col_factors_", "row_effects_", "col_effects_", "coef_", "intercept_", "signal_"):
        if hasattr(whole, attribute):
            assert np.array_equal(getattr(whole, attribute), getattr(again, attribute)), attribute
    assert repr(whole.certificate_) == repr(again.certificate_)
    np.testing.assert_array_equal(whole.history_["objective"], again.history_["objective"])
    with pytest.raises(ValueError, match=r"C: .* in the checkpoint, 7\.0 now"):
        make().set_params(C=7.0).fit(*given, **more, checkpoint=path)


def test_a_checkpoint_is_of_a_single_problem(path):
    for options in ({}, {"rank": 3}, {"C": 10.0}):
        with pytest.raises(ValueError, match="needs both rank and C, because only then a fit is a single problem"):
            HankelModel(**options).fit(series(), checkpoint=path)
    assert not path.exists()


# ---- the command line -------------------------------------------------------------------------------------------


@pytest.fixture
def run(monkeypatch, capsys):
    """A command: its exit code or what it says at the end, what it prints, and what it says beside."""
    main = pytest.importorskip("rslm.cli").main

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["rslm", *map(str, words)])
        monkeypatch.setenv("COLUMNS", "400")
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, *capsys.readouterr()

    return run


def test_complete_goes_on(run, tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("\n".join(f"{i},{t},{Y[i, t]:.6g}" for i, t in np.argwhere(~np.isnan(Y))))
    path = tmp_path / "fit.checkpoint"
    words = ["complete", table, "--C", 30, "--rank", 4, "--json", "--checkpoint", path]
    code, _, told = run(*words, "--max-time", 1e-6)
    assert code == 0, told
    assert "Resuming" not in told
    code, one, told = run(*words)
    assert code == 0, told
    assert re.search(r"Resuming from .*fit\.checkpoint: iteration 0, 0 s so far", told)
    path.unlink()
    _, other, told = run(*words)
    assert "Resuming" not in told
    facts = [json.loads(printed) for printed in (one, other)]
    assert [found.pop("seconds") > 0 for found in facts] == [True, True]
    assert facts[0] == facts[1]
    assert facts[0]["iterations"] > 3
    # What the command has written, it may write again when it goes on, but not when it begins.
    path.unlink()
    assert run(*words, "--model", tmp_path / "m", "--max-time", 1e-6)[0] == 0
    assert run(*words, "--model", tmp_path / "m")[0] == 0
    path.unlink()
    assert "m exists; add --force" in run(*words, "--model", tmp_path / "m")[0]
    assert run(*words)[0] == 0
    said = str(run(*words, "--weighting", 1)[0])
    assert "another fit; weighting of rows: " in said
    assert "named for two different outputs" in run(*words, "--model", path)[0]
    said = str(run("complete", table, "--rank", 4, "--checkpoint", path)[0])  # C is to be found
    assert "another fit; settings to find: none in the checkpoint, " in said.replace("\n", " ")


def test_multitask_goes_on(run, tmp_path):
    table, path = tmp_path / "table.csv", tmp_path / "fit.checkpoint"
    lines = [f"{g},{y:.6g}," + ",".join(f"{x:.6g}" for x in row) for g, y, row in zip(GROUPS, TARGETS, X, strict=True)]
    table.write_text("\n".join(["task,y,a,b,c,d,e,f", *lines]))
    words = ["multitask", table, "--task", "task", "--target", "y", "--checkpoint", path, "--rank", 3, "--C"]
    code, first, _ = run(*words, 1)
    assert code == 0
    code, second, _ = run(*words, 1)
    assert code == 0
    assert "Resuming" in second
    assert [line for line in first.splitlines() if "gap" in line] == [x for x in second.splitlines() if "gap" in x]
    assert "another fit; C: 1.0 in the checkpoint, 3.0 now" in run(*words, 3)[0]
