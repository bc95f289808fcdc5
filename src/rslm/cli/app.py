"""`rslm`: the commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps

from rslm.cli.interrupts import interruptible

INSTRUCTION_SET = "RSLM_INSTRUCTION_SET"
NEEDED = "The command line needs some more packages: pip install 'rslm[cli]'"


def main() -> None:
    try:
        run()
    except (ValueError, TypeError, OSError, MemoryError, ModuleNotFoundError) as error:  # a message, not a traceback
        sys.exit(f"Error: {sentence(error)}")


def run() -> None:
    try:
        import typer
    except ModuleNotFoundError:
        sys.exit(NEEDED)
    from rslm.cli.complete import complete
    from rslm.cli.demo import demo
    from rslm.cli.denoise import denoise
    from rslm.cli.evaluate import evaluate
    from rslm.cli.info import certify, info
    from rslm.cli.multitask import multitask
    from rslm.cli.panel import panel
    from rslm.cli.predict import predict, recommend
    from rslm.cli.prepare import prepare

    app = typer.Typer(
        help="Structured low-rank matrix learning with a certificate of optimality. Try: rslm demo",
        epilog="Exit codes: 0 done; 1 a file or value is wrong: one line says what, nothing is written; 2 the "
        "command is wrong; 130 interrupted by Ctrl-C, with the best model so far kept if there is one.",
        pretty_exceptions_enable=False,
        no_args_is_help=True,
        add_completion=False,
    )

    def show_version(wanted: bool) -> None:
        if wanted:
            from rslm import __version__

            typer.echo(f"rslm {__version__}")
            raise typer.Exit

    @app.callback()
    def common(
        version: bool = typer.Option(
            False, "--version", help="Show the version.", callback=show_version, is_eager=True
        ),
    ) -> None: ...

    for command in (complete, prepare, predict, recommend, evaluate, denoise, panel, multitask, certify, info, demo):
        app.command()(ready(command, computes=command not in (prepare, info)))
    app(prog_name="rslm")


@contextmanager
def without_instruction_set() -> Iterator[None]:
    """Import with `RSLM_INSTRUCTION_SET` unset: a wrong value would fail the import, and so also `--help`."""
    name = os.environ.pop(INSTRUCTION_SET, None)
    try:
        yield
    finally:
        if name is not None:
            os.environ[INSTRUCTION_SET] = name


def ready(command: Callable[..., None], computes: bool) -> Callable[..., None]:
    """Import what is slow only when a command runs, not for its help, and before Ctrl-C raises an exception in it.

    A command that computes uses the instruction set that the environment names.
    """

    @wraps(command)
    def run(*args: object, **options: object) -> None:
        with without_instruction_set():
            from rslm.estimators.instruction_set import use_named_instruction_set
        if computes:
            use_named_instruction_set()
        interruptible(command)(*args, **options)

    return run


def sentence(error: Exception) -> str:
    """The message of an error, without the error number if it comes from the operating system."""
    if isinstance(error, FileNotFoundError) and error.filename is not None:
        return f"{error.filename} does not exist"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    without_words = "there is not enough memory" if isinstance(error, MemoryError) else "it failed without a message"
    return str(error) or without_words
