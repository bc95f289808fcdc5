"""Ctrl-C at any moment of `rslm`: one line and exit code 130."""

import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import rslm
from rslm.cli import interrupts

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a process cannot send itself Ctrl-C there")

NUMPY_2 = not np.__version__.startswith("1.")

# Presses Ctrl-C when a module is about to be imported, then runs the program.
PROGRAM = """
import os, signal, sys

wanted = sys.argv.pop(1)

class Press:
    def find_spec(self, name, path=None, target=None):
        if name == wanted:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Press())
from rslm.cli import program
program()
"""


def run(code, *words, **options):
    return subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=120, check=False, **options
    )


@pytest.mark.parametrize(
    "module",
    [
        "typer",
        f"numpy.{'_core' if NUMPY_2 else 'core'}.multiarray",  # whose extension replaces the exception
        "rslm.cli.complete",
        "polars",  # by the command itself
    ],
)
def test_during_imports(tmp_path, module):
    (tmp_path / "data.csv").write_text("1,1,1\n1,2,2\n2,1,2\n2,2,4\n")
    ended = run(PROGRAM, module, "complete", "data.csv", "--C", "1", cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (130, "Interrupted.\n")


# Presses Ctrl-C while Python takes modules apart, which takes a good part of a second.
DYING = """
import os, signal

class Dying:
    def __del__(self, kill=os.kill, own=os.getpid(), number=signal.SIGINT):
        kill(own, number)

dying = Dying()
"""


def test_a_command_that_is_done_stays_done():
    ended = run(DYING + PROGRAM, "none", "--version")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"rslm {rslm.__version__}\n", "")


def test_in_the_background_it_stays_ignored():
    """A shell without job control starts background jobs so: Ctrl-C is not for them."""
    ended = run("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + PROGRAM, "typer", "--version")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_command_unwinds(capsys):
    """It may have files to remove; the handler of whoever calls it is left alone."""
    steps = []

    def command(number: int) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            steps.append(number)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(SystemExit) as ended:
        interrupts.interruptible(command)(7)
    assert (ended.value.code, steps, capsys.readouterr().err) == (130, [7], "Interrupted.\n")
    assert signal.getsignal(signal.SIGINT) is before


def test_a_closed_pipe_is_no_error():
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "none", "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""


def test_the_program_is_what_is_installed():
    project = Path(__file__).resolve().parents[2] / "pyproject.toml"
    assert tomllib.loads(project.read_text(encoding="utf-8"))["project"]["scripts"] == {"rslm": "rslm.cli:program"}


# ---- nothing slow comes before it ------------------------------------------------------------------------------------


SLOW = {"numpy", "scipy", "sklearn", "polars", "pandas", "matplotlib", "duckdb", "distributed"}


def slow_after(code, *words):
    """The slow packages that are imported when the code has ended."""
    ended = run(f"import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); {code}", *words)
    assert ended.returncode == 0, ended.stderr
    return {name.split(".")[0] for name in ended.stderr.split()} & SLOW


def test_the_package_imports_names_when_they_are_used():
    assert slow_after("import rslm, rslm.cli; assert 'typer' not in sys.modules") == set()
    assert slow_after("import rslm; rslm.MatrixCompletion") >= {"numpy", "scipy", "sklearn"}  # so they would be seen


@pytest.mark.parametrize("word", ["--help", "--version"])
def test_help_imports_nothing_slow(word):
    assert slow_after("from rslm.cli import program; program()", word) == set()


def test_no_command_imports_anything_slow_for_its_help():
    """All of them in one process: their parameters have been read by then."""
    code = """
for name in ("complete", "prepare", "predict", "recommend", "denoise", "panel", "multitask", "certify", "info", "demo"):
    sys.argv = ["rslm", name, "--help"]
    try:
        program()
    except SystemExit as ended:
        assert not ended.code
"""
    assert slow_after(f"from rslm.cli import program\n{code}") == set()


def test_all_names_are_there():
    code = """
import rslm
assert set(rslm.__all__) <= set(dir(rslm))
names = {}
exec("from rslm import *", names)
assert all(names[name] is getattr(rslm, name) for name in rslm.__all__)
assert rslm.losses.Huber(0.5) is not None  # packages too
"""
    ended = run(code)
    assert ended.returncode == 0, ended.stderr
    with pytest.raises(AttributeError, match="module 'rslm' has no attribute 'Nothing'"):
        _ = rslm.Nothing
    with pytest.raises(ImportError, match="Nothing"):
        from rslm import Nothing  # noqa: F401
