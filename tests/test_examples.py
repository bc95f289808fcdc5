"""Every example in the documentation and in the docstrings is run, and what is shown below one is what comes out."""

import ast
import contextlib
import doctest
import importlib
import io
import pkgutil
import re
import shlex
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

import pytest

import rslm
from rslm.cli import main

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = [m.name for m in pkgutil.walk_packages(rslm.__path__, "rslm.") if not m.name.startswith("rslm.kernels._")]
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"(?:^(?: {4}|\t).*\n?)+", re.MULTILINE)
LIKE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Block(NamedTuple):
    """What stands between two fences of a page."""

    language: str
    text: str
    line: int


def blocks(page):
    text = page.read_text(encoding="utf-8")
    return [Block(m[1], m[2], text.count("\n", 0, m.start(2))) for m in FENCE.finditer(text)]


def indented(text):
    """What Markdown shows as code because it is indented; options of the reference, below `:::`, are not."""
    plain = FENCE.sub(lambda m: "\n" * m[0].count("\n"), text)
    plain = re.sub(r"^:::.*\n(?: {4}.*\n?)*", lambda m: "\n" * m[0].count("\n"), plain, flags=re.MULTILINE)
    return [Block("", textwrap.dedent(m[0]), plain.count("\n", 0, m.start())) for m in INDENTED.finditer(plain)]


def is_code(text):
    """Whether all of it, or one line, is Python or a command: a formula is neither."""
    for part in (text, *text.splitlines()):
        if re.match(r"(>>>|\$|rslm|python|pip|make) ", part.strip()):
            return True
        try:
            if ast.parse(part.strip()).body:
                return True
        except SyntaxError:
            pass
    return False


RUN = {page: [b for b in blocks(page) if b.language in ("python", "console")] for page in PAGES}


@pytest.mark.parametrize("page", [p for p, found in RUN.items() if found], ids=lambda p: p.name)
def test_page(page, tmp_path, monkeypatch):
    """The Python and the commands of a page, one after the other, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    names = {"__name__": "__main__"}
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for block in RUN[page]:
        if block.language == "python":
            test = doctest.DocTestParser().get_doctest(block.text, names, page.name, str(page), block.line)
            runner.run(test, clear_globs=False)
            names = test.globs
        else:
            run_console(block, page.name, monkeypatch)
    assert runner.summarize(verbose=False).failed == 0


def run_console(block, name, monkeypatch):
    """A session at the prompt: commands after `$ `, what they print below, if anything is shown."""
    code = 0
    parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    sessions = [part.partition("\n")[::2] for part in parts[1:]]
    for k, (command, wanted) in enumerate(sessions):
        if command == "echo $?":
            assert wanted.strip() == str(code), f"{name}: {sessions[k - 1][0]} ended with {code}"
            continue
        code, got = rslm_command(command, monkeypatch)
        asked = k + 1 < len(sessions) and sessions[k + 1][0] == "echo $?"
        assert asked or code == 0, f"{name}: {command}\n{got}"
        if wanted.strip():
            alike = doctest.OutputChecker().check_output(wanted, got, LIKE)
            assert alike, f"{name}: {command}\nshould print\n{wanted}\nand prints\n{got}"


def rslm_command(command, monkeypatch):
    """The exit code of `rslm …`, and all that it prints; `< file` and `> file` are understood."""
    words = shlex.split(command)
    put, taken = (words[words.index(sign) + 1] if sign in words else None for sign in (">", "<"))
    signs = [words.index(sign) for sign in "<>" if sign in words]
    monkeypatch.setattr(sys, "argv", words[: min(signs, default=None)])
    if taken is not None:
        content = io.BytesIO(Path(taken).read_bytes())
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(content, encoding="utf-8"))
    printed = io.StringIO()
    written = io.StringIO() if put else printed
    with contextlib.redirect_stdout(written), contextlib.redirect_stderr(printed):
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = ended.code or 0
    if put:
        Path(put).write_text(written.getvalue(), encoding="utf-8")
    if isinstance(code, str):  # how Python ends a program with a sentence
        printed.write(code + "\n")
        code = 1
    return code, printed.getvalue()


# Files that the documentation shows, and `test_extend` runs.
FILES = [path.read_text(encoding="utf-8") for path in (ROOT / "examples" / "extend").glob("*.py")]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_all_code_is_run(page):
    """Python has prompts, a console runs `rslm`; whatever is not run is plain text, and what is indented formulas."""
    for block in blocks(page):
        where = f"{page.name}, line {block.line}"
        assert block.language in ("", "text", "python", "console"), where
        if block.language == "python":
            assert block.text.startswith(">>> ") or block.text in FILES, f"{where}: no prompt, so it would not be run"
        if block.language == "console":
            assert block.text.startswith("$ "), f"{where}: no prompt, so it would not be run"
            commands = re.findall(r"^\$ (.*)$", block.text, re.MULTILINE)
            assert all(c.startswith("rslm ") or c == "echo $?" for c in commands), where
    for block in indented(page.read_text(encoding="utf-8")):
        assert not is_code(block.text), f"{page.name}, line {block.line + 1}: indented, so it would not be run"


def test_indented_code_is_seen():
    page = "Text:\n\n    load(\n        download=True)\n\n```text\n    f(1)\n```\n\n    v̇ = Ẋᵀ s − q_t/C\n\n"
    page += "::: a.b\n    options: {}\n"
    found = [(block.line, is_code(block.text)) for block in indented(page)]
    assert found == [(2, True), (9, False)]
    assert all(
        map(is_code, ["import rslm", "x = f(y)", "$ rslm demo", ">>> 1 + 1", "pip install rslm", "v̇ ≤ 1\nprint(v)"])
    )


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert failed == 0
