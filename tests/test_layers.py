"""Who may import whom. A room is a package or module directly below `rslm`; the package's own `__init__` is "rslm".

The types of arrays are a room of their own, since kernels, which the rest of `runtime` imports, may import them.
"""

import ast
from importlib.util import find_spec, resolve_name
from pathlib import Path

import pytest

ROOT = Path(find_spec("rslm").origin).parent
MODULES = sorted(path.relative_to(ROOT) for path in ROOT.rglob("*.py"))
OWN = {"runtime.types"}  # modules that are rooms of their own


def room_of(module: str) -> str:
    """The room of a module, "rslm.runtime.threads" say."""
    parts = module.split(".")[1:]
    return ".".join(parts[:2]) if ".".join(parts[:2]) in OWN else (parts or ["rslm"])[0]


ROOMS = {room_of(".".join(("rslm", *path.with_suffix("").parts))) for path in MODULES}

# All of ours that a room may import, beside itself.
ONLY = {
    "runtime.types": set(),
    "kernels": {"runtime.types"},
    "runtime": {"runtime.types", "kernels"},
    "storage": {"runtime"},
    "display": {"runtime.types"},  # so that any room may show what it has in a notebook
    "data": {"runtime.types", "runtime", "kernels", "storage", "display"},
    "datasets": {"runtime.types", "runtime", "data", "storage"},
    "losses": {"runtime.types", "kernels"},
    "measurements": {"runtime.types", "kernels", "data"},
    "structures": {"runtime.types", "runtime", "kernels"},
    "location": {"runtime.types", "runtime"},
    "problem": {"runtime.types", "runtime", "kernels", "losses", "measurements", "structures", "location"},
    "linalg": {"runtime.types", "runtime", "kernels"},
    "sampling": {"runtime.types", "kernels", "linalg"},
    "evaluate": {"runtime.types", "runtime", "data"},
    "cli": {"rslm", "estimators", "data", "datasets", "distributed", "evaluate", "report", "storage"},
}
# What a room must not import. The package itself shows everything, so it is as good as any of these.
NEVER = {
    "inner": {"rslm", "solvers", "estimators", "evaluation", "certificate", "continuation", "checkpoint"},
    "evaluation": {"rslm", "solvers", "estimators", "certificate", "continuation", "checkpoint"},
    "certificate": {"rslm", "solvers", "estimators", "continuation", "checkpoint"},
    "continuation": {"rslm", "estimators", "checkpoint"},
    "checkpoint": {"rslm", "losses", "estimators", "continuation"},
    "solvers": {"rslm", "losses", "estimators"},
}
# Attributes that a room must not read: a loss is a loss, whoever hands it over.
UNSEEN = {"solvers": {"loss", "interval", "quadratic"}}
# Rooms that may import all but the command line.
FREE = {"rslm", "estimators", "distributed", "report", "testing"}


def offences(path: Path, source: str, rooms: set[str] = ROOMS) -> list[str]:
    """What the module at `path`, relative to the package, does that the rules forbid."""
    room = room_of(".".join(("rslm", *path.with_suffix("").parts)))
    room = {"__init__": "rslm", "__main__": "cli"}.get(room, room)
    package = ".".join(("rslm", *path.parent.parts))
    found = []
    for node in ast.walk(ast.parse(source)):
        for target in targets(node, package, rooms) - {room}:
            if target == "cli" or target not in ONLY.get(room, {target}) or target in NEVER.get(room, ()):
                found.append(f"{path}:{node.lineno}: {room} must not import {target}")
        if isinstance(node, ast.Attribute) and node.attr in UNSEEN.get(room, ()):
            found.append(f"{path}:{node.lineno}: {room} must not read .{node.attr}")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print" and room != "cli":
            found.append(f"{path}:{node.lineno}: print outside the command line")
    return found


def targets(node: ast.AST, package: str, rooms: set[str]) -> set[str]:
    """The rooms that a statement imports from."""
    names = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        base = resolve_name("." * node.level + (node.module or ""), package)
        names = [f"{base}.{alias.name}" for alias in node.names]
        if base == "rslm":  # a room, or a name that the package shows
            names = [f"rslm.{alias.name}" if alias.name in rooms else "rslm" for alias in node.names]
    return {room_of(name) for name in names if name.split(".")[0] == "rslm"}


def test_the_package_was_found():
    assert {"__init__", "runtime.types", "kernels"} <= ROOMS


def test_every_room_is_named():
    assert ROOMS - {"__init__"} | {"rslm"} == {*ONLY, *NEVER, *FREE}


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_rules(path):
    assert offences(path, (ROOT / path).read_text(encoding="utf-8")) == []


ALL_ROOMS = {*ONLY, *NEVER, *FREE} - {"rslm"}


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("kernels/columns.py", "from rslm.losses import Square"),
        ("kernels/columns.py", "import rslm"),
        ("kernels/columns.py", "from rslm.runtime.threads import thread_count"),
        ("kernels/columns.py", "from rslm.runtime import log"),
        ("kernels/columns.py", "from rslm.storage.atomic import atomic_text"),
        ("runtime/types.py", "from rslm.kernels import Columns"),
        ("runtime/log.py", "from rslm.data import parts"),
        ("storage/container.py", "from rslm.data import parts"),
        ("display/svg.py", "from rslm.data import ObservedMatrix"),
        ("linalg/spectrum.py", "from rslm.evaluation.dual import DualSums"),
        ("evaluation/objective.py", "from rslm.solvers.manifold import norm"),
        ("certificate/certify.py", "from rslm.solvers import Result"),
        ("continuation/start.py", "from rslm.checkpoint.file import Checkpoint"),
        ("checkpoint/file.py", "from rslm.losses import Square"),
        ("losses/square.py", "from rslm.measurements.entries import Entries"),
        ("losses/square.py", "from ..structures import box"),
        ("losses/square.py", "from .. import structures"),
        ("measurements/entries.py", "import rslm.losses.square as s"),
        ("structures/box.py", "def f():\n    from rslm import losses"),
        ("inner/entries/ridge.py", "from rslm.solvers.manifold import inner"),
        ("inner/entries/ridge.py", "if TYPE_CHECKING:\n    from rslm.solvers import Result"),
        ("inner/entries/ridge.py", "from rslm import solve"),
        ("solvers/trust_region.py", "from rslm.losses.base import Loss"),
        ("solvers/trust_region.py", "import numpy, rslm.losses"),
        ("solvers/solve.py", "def f(problem): return problem.loss.smooth"),
        ("linalg/spectrum.py", "from rslm.problem import Problem"),
        ("evaluate/scorers.py", "from rslm.estimators import MatrixCompletion"),
        ("cli/main.py", "from rslm.solvers import solve"),
        ("cli/main.py", "from rslm.kernels import Columns"),
        ("estimators/completion.py", "from rslm.cli import main"),
        ("evaluation/objective.py", "from rslm import cli"),
        ("__init__.py", "from .cli import main"),
        ("solvers/manifold.py", "print(1)"),
        ("solvers/trust_region.py", "for i in x:\n    if i: print(i)"),
    ],
)
def test_breaches_are_refused(path, source):
    assert len(offences(Path(path), source, ALL_ROOMS)) == 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        (
            "kernels/columns.py",
            "from rslm.runtime.types import Floats\nfrom rslm.kernels import _native\nfrom . import reference",
        ),
        ("kernels/columns.py", "from rslm.runtime import types"),
        ("losses/square.py", "import numpy as np\nfrom scipy import sparse\nfrom rslm.losses.base import Loss"),
        ("inner/entries/ridge.py", "from rslm.losses import Square\nfrom rslm.kernels import Columns"),
        (
            "solvers/trust_region.py",
            "from rslm.solvers.manifold import inner\nfrom rslm.evaluation.objective import Objective",
        ),
        ("estimators/completion.py", "from rslm.solvers import solve\nfrom rslm.losses import Square"),
        ("cli/main.py", "import rslm\nfrom rslm import load\nfrom rslm.estimators import MatrixCompletion\nprint(1)"),
        ("__main__.py", "from rslm.cli import main"),
        ("__init__.py", "from rslm.solvers import solve\nfrom .problem import Problem"),
    ],
)
def test_what_is_allowed_passes(path, source):
    assert offences(Path(path), source, ALL_ROOMS) == []


# ---- a part says what it can do; nobody asks what it is ----------------------------------------------------------

# `isinstance` on our own classes that validates what a user has given.
VALIDATION = {
    ("problem.py", "Location"): "the parts of a problem",
    ("cli/lookup.py", "Completion"): "the model file that a user names",
    ("cli/lookup.py", "ImplicitCompletion"): "the model file that a user names",
    ("data/observed.py", "ObservedMatrix"): "data in any form",
    ("evaluate/splits.py", "ObservedMatrix"): "times in any form",
    ("distributed/matrix.py", "DistributedMatrix"): "data in any form",
    ("estimators/completion/bounds.py", "Box"): "bounds=(0, 5) or a Box",
    ("estimators/choices.py", "Loss"): "loss='huber' or a Loss",
    ("estimators/completion/observed_input.py", "ObservedMatrix"): "data in any form",
    ("estimators/completion/predicting_intervals.py", "ObservedMatrix"): "data in any form",
    ("estimators/completion/recommend.py", "ObservedMatrix"): "what a user names as known",
    ("measurements/bilinear.py", "Side"): "features, or a Side",
    ("measurements/side.py", "FeatureMatrix"): "features, or a FeatureMatrix",
    ("problem.py", "Loss"): "the parts of a problem",
    ("problem.py", "Measurement"): "the parts of a problem",
    ("problem.py", "Structure"): "the parts of a problem",
    ("structures/affine.py", "LinearStructure"): "the structure that is shifted",
}
# The others, with why.
OTHERS = {
    ("structures/hankel.py", "Transformed"): "products take a factor, or its Fourier transform, which is computed once",
    ("estimators/persistence.py", "Loss"): "parameters of any kind become JSON",
    ("estimators/series/hankel_model.py", "Loss"): "a file names a user's own loss, which is then a string",
}


def own_classes() -> set[str]:
    trees = (ast.parse((ROOT / path).read_text(encoding="utf-8")) for path in MODULES)
    return {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def asked(path: Path, own: set[str]) -> set[tuple[str, str]]:
    """The classes of ours that a module asks objects about."""
    found = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "type"):
            names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} & own
            found |= {(path.as_posix(), name) for name in names}
    return found


def test_nobody_asks_what_a_part_is():
    own = own_classes()
    assert {"Tasks", "Box", "Huber"} <= own
    assert set().union(*(asked(path, own) for path in MODULES)) == {*VALIDATION, *OTHERS}
    assert len(OTHERS) <= 10
