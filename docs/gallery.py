"""The gallery: runs the files of `examples/` and makes a page, pictures and a notebook of each.

MkDocs calls it as a hook while it builds the site. `python docs/gallery.py [names]` runs examples without MkDocs and
writes the same files to build/gallery. An example is a Python file:

    \"\"\"Title

    What you have and what you get.
    \"\"\"

    # %%
    # Text in Markdown.

    code()

A line `# %%` begins a cell: text, then code. What a cell prints and the figures that it leaves open are shown below it.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
RESULTS = ROOT / "build" / "gallery"
REFERENCE = ROOT / "docs" / "reference"
FOLDER = "gallery"  # in the site

# The order of the overview and of the navigation.
GROUPS = {
    "Ratings and clicks": ["ratings", "implicit", "side_information", "yes_or_no"],
    "Tables and sensors": ["imputation", "sensors", "panel"],
    "Images": ["image", "video"],
    "Series and systems": ["series", "nmr", "system"],
    "Regressions and classes": ["tasks", "targets", "classes"],
    "Extending and large data": ["own_parts", "cluster"],
}

# Readable at the width of a phone: a figure is at most 6 inches wide, with large letters.
STYLE = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.constrained_layout.use": True,
    "figure.figsize": (6.0, 4.0),
    "font.size": 12.0,
    "legend.frameon": False,
    "savefig.dpi": 150,
}


@dataclass(frozen=True)
class Cell:
    """Text and code between two lines `# %%`."""

    text: str
    code: str
    line: int  #: of the file, where the code begins


@dataclass(frozen=True)
class Example:
    """A file of `examples/`, read but not run."""

    name: str
    title: str
    intro: str
    cells: tuple[Cell, ...]
    source: str

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.source)

    def uses(self) -> list[str]:
        """Names of rslm that the example imports, as `rslm.losses.Huber`."""
        found = [
            f"{node.module}.{name.name}"
            for node in ast.walk(self.tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "rslm"
            for name in node.names
        ]
        return sorted(set(found))

    def parts(self) -> list[str]:
        """Files in `examples/` that the example imports, as `extend/loss.py`."""
        modules = [node.module or "" for node in ast.walk(self.tree) if isinstance(node, ast.ImportFrom)]
        paths = [module.replace(".", "/") + ".py" for module in modules]
        return sorted({path for path in paths if (EXAMPLES / path).is_file()})


@dataclass
class Output:
    """What a cell printed, and its figures as PNG."""

    printed: str = ""
    figures: list[bytes] = field(default_factory=list)


def names() -> list[str]:
    """All examples, in the order of the gallery."""
    return [name for group in GROUPS.values() for name in group]


def read(name: str) -> Example:
    """The example `examples/name.py`."""
    path = EXAMPLES / f"{name}.py"
    source = path.read_text(encoding="utf-8")
    doc = ast.get_docstring(ast.parse(source))
    title, _, intro = (doc or "").partition("\n\n")
    if not intro or "\n" in title:
        raise ValueError(f"{path}: the docstring needs a title of one line, an empty line, and an introduction.")
    starts = [*re.finditer(r"^# %%.*\n", source, re.MULTILINE)]
    if not starts:
        raise ValueError(f"{path}: there is no cell; a line '# %%' begins one.")
    ends = [*(found.start() for found in starts[1:]), len(source)]
    cells = [cell(source, found.end(), end) for found, end in zip(starts, ends, strict=True)]
    return Example(name, title, intro, tuple(cells), source)


def cell(source: str, start: int, end: int) -> Cell:
    found = re.compile(r"(?:#.*\n)*").match(source, start, end)
    assert found is not None  # it may be empty
    text = re.sub(r"^# ?", "", found[0], flags=re.MULTILINE).strip()
    code = source[found.end() : end]
    line = source.count("\n", 0, found.end()) + len(code) - len(code.lstrip("\n"))
    return Cell(text, code.strip("\n"), line)


# ---- running --------------------------------------------------------------------------------------------------------


def execute(example: Example) -> tuple[list[Output], dict[str, Any]]:
    """Run an example in this process; what its cells show, and its variables."""
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    mpl.use("Agg")
    space: dict[str, Any] = {"__name__": "__main__", "__file__": str(EXAMPLES / f"{example.name}.py")}
    outputs = []
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.chdir(folder))
        stack.enter_context(imports_from(EXAMPLES))
        stack.enter_context(plt.rc_context(STYLE))
        show, plt.show = plt.show, lambda *_, **__: None
        stack.callback(setattr, plt, "show", show)
        stack.callback(plt.close, "all")
        for each in example.cells:
            printed = io.StringIO()
            code = compile("\n" * each.line + each.code, space["__file__"], "exec")
            with contextlib.redirect_stdout(printed):
                exec(code, space)
            outputs.append(Output(printed.getvalue(), [png(plt.figure(k)) for k in plt.get_fignums()]))
            plt.close("all")
    return outputs, space


@contextlib.contextmanager
def imports_from(folder: Path) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def png(figure: Any) -> bytes:
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", metadata={"Software": None})
    return drawn.getvalue()


def result(example: Example) -> list[Output]:
    """What the cells show: from the last build if neither the example nor rslm has changed since then."""
    file = RESULTS / f"{example.name}.json"
    key = fingerprint(example)
    stored = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if stored.get("key") != key:
        start = time.perf_counter()
        RESULTS.mkdir(parents=True, exist_ok=True)
        # A process of its own: an example must not depend on those before it.
        environment = os.environ | {"MPLBACKEND": "Agg"}
        subprocess.run([sys.executable, __file__, "--run", example.name, str(file), key], check=True, env=environment)
        print(f"gallery: {example.name} has run for {time.perf_counter() - start:.1f} s", file=sys.stderr)
        stored = json.loads(file.read_text(encoding="utf-8"))
    return [Output(cell["printed"], [base64.b64decode(f) for f in cell["figures"]]) for cell in stored["cells"]]


def fingerprint(example: Example) -> str:
    """Changes with the example, its parts, rslm and the style of the pictures."""
    found = hashlib.sha256(package_fingerprint() + repr(STYLE).encode())
    for path in [f"{example.name}.py", *example.parts()]:
        found.update((EXAMPLES / path).read_bytes())
    return found.hexdigest()


@cache
def package_fingerprint() -> bytes:
    import rslm

    found = hashlib.sha256(rslm.__version__.encode())
    for path in sorted(Path(rslm.__file__).parent.rglob("*")):
        if path.suffix in (".py", ".so", ".pyd"):
            found.update(path.read_bytes())
    return found.digest()


def run(name: str, file: str, key: str) -> None:
    """In a process of its own: execute, and write what `result` reads."""
    outputs, _ = execute(read(name))
    cells = [{"printed": o.printed, "figures": [base64.b64encode(f).decode() for f in o.figures]} for o in outputs]
    Path(file).write_text(json.dumps({"key": key, "cells": cells}), encoding="utf-8")


# ---- pages and notebooks --------------------------------------------------------------------------------------------


def files(example: Example, outputs: list[Output]) -> dict[str, bytes]:
    """All files of an example in the site: page, pictures, notebook, the example itself and its parts."""
    found = {f"{example.name}.md": page(example, outputs).encode()}
    found |= {name: drawn for shown in pictures(example, outputs) for name, drawn in shown}
    found[f"{example.name}.ipynb"] = json.dumps(notebook(example, outputs), ensure_ascii=False, indent=1).encode()
    for path in [f"{example.name}.py", *example.parts()]:
        found[path] = (EXAMPLES / path).read_bytes()
    return found


def pictures(example: Example, outputs: list[Output]) -> list[list[tuple[str, bytes]]]:
    """Names and contents of the pictures of every cell. The last one has the name of the example."""
    count = sum(len(output.figures) for output in outputs)
    numbered = iter([*(f"{example.name}-{k}.png" for k in range(1, count)), f"{example.name}.png"])
    return [[(next(numbered), drawn) for drawn in output.figures] for output in outputs]


def page(example: Example, outputs: list[Output]) -> str:
    parts = [f"# {example.title} {{ #gallery-{example.name} }}", example.intro, downloads(example)]
    for each, output, drawn in zip(example.cells, outputs, pictures(example, outputs), strict=True):
        parts += [each.text] if each.text else []
        parts += [f"```py\n{each.code}\n```"] if each.code else []
        parts += [f"```text\n{output.printed.rstrip()}\n```"] if output.printed.strip() else []
        parts += [f"![{described(each.text)}]({name}){{ .drawn }}" for name, _ in drawn]
    return "\n\n".join([*parts, see_also(example)]) + "\n"


def downloads(example: Example) -> str:
    links = [f"[notebook]({example.name}.ipynb)", f"[Python file]({example.name}.py)"]
    links += [f"[{part}]({part})" for part in example.parts()]
    needed = " The notebook needs the other files next to it, in the folder `extend`." if example.parts() else ""
    return f"Download: {', '.join(links)}.{needed}\n{{ .downloads }}"


def see_also(example: Example) -> str:
    known = documented()
    links = [f"[`{path.rpartition('.')[2]}`][{known[path]}]" for path in example.uses() if path in known]
    return f"In the reference: {', '.join(links)}. [All examples](index.md)"


@cache
def documented() -> dict[str, str]:
    """How names of rslm are imported → the anchor of the reference."""
    found = {}
    for each in sorted(REFERENCE.glob("*.md")):
        for path in re.findall(r"^::: (rslm\.\S+)", each.read_text(encoding="utf-8"), re.MULTILINE):
            found[path] = path
            found.setdefault("rslm." + path.rpartition(".")[2], path)
    return found


def described(text: str) -> str:
    """The text of a cell as the description of its picture: without marks and links."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*#\[\]]", r"\1", " ".join(text.split()))


def overview(examples: list[Example]) -> str:
    by_name = {example.name: example for example in examples}
    parts = [
        "# Gallery",
        "Each example is a short program with a picture, run when this site was built. All data are generated or come "
        "with scikit-learn. Every example can be downloaded as a notebook.",
    ]
    for group, members in GROUPS.items():
        cards = "\n\n".join(card(by_name[name]) for name in members if name in by_name)
        parts.append(f'## {group}\n\n<div class="grid cards examples" markdown>\n\n{cards}\n\n</div>')
    return "\n\n".join(parts) + "\n"


def card(example: Example) -> str:
    text = " ".join(example.intro.split("\n\n")[0].split())
    to = f"{example.name}.md"
    return f"-   [![{example.title}]({example.name}.png)]({to})\n\n    **[{example.title}]({to})**\n\n    {text}"


def notebook(example: Example, outputs: list[Output]) -> dict[str, Any]:
    """The example in the format of Jupyter, version 4.5, with its outputs."""
    extras = "plot,distributed" if "from distributed import" in example.source else "plot"
    needs = " and ".join(
        [f'`pip install "rslm[{extras}]"`', *(f"the file `{part}` next to it" for part in example.parts())]
    )
    cells: list[dict[str, Any]] = [text_cell("title", f"# {example.title}\n\n{example.intro}")]
    cells += [text_cell("install", f"This notebook needs {needs}.")]
    for k, (each, output) in enumerate(zip(example.cells, outputs, strict=True), 1):
        cells += [text_cell(f"text-{k}", each.text)] if each.text else []
        cells += [code_cell(k, each.code, output)] if each.code else []
    python = {"name": "python3", "display_name": "Python 3", "language": "python"}
    metadata = {"kernelspec": python, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def text_cell(name: str, text: str) -> dict[str, Any]:
    text = re.sub(r"\[([^\]]*)\]\((?!https?:)[^)]*\)", r"\1", text)  # other pages are not next to a notebook
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": text}


def code_cell(number: int, code: str, output: Output) -> dict[str, Any]:
    shown: list[dict[str, Any]] = []
    if output.printed:
        shown.append({"output_type": "stream", "name": "stdout", "text": output.printed})
    for drawn in output.figures:
        data = {"image/png": base64.b64encode(drawn).decode(), "text/plain": "<Figure>"}
        shown.append({"output_type": "display_data", "data": data, "metadata": {}})
    cell = {"cell_type": "code", "id": f"code-{number}", "metadata": {}, "source": code}
    return cell | {"execution_count": number, "outputs": shown}


def examples_of() -> dict[str, list[Example]]:
    """Anchors of the reference → the examples that import this class or function."""
    found: dict[str, list[Example]] = {}
    for example in map(read, names()):
        for path in example.uses():
            if path in documented():
                found.setdefault(documented()[path], []).append(example)
    return found


# ---- what MkDocs calls ----------------------------------------------------------------------------------------------


def on_config(config: Any) -> Any:
    """Write out the entry `Gallery: gallery/` of the navigation."""
    pages = [{group: [f"{FOLDER}/{name}.md" for name in members]} for group, members in GROUPS.items()]
    full = [{"Overview": f"{FOLDER}/index.md"}, *pages]
    config.nav = [
        {title: full} if to == f"{FOLDER}/" else {title: to} for item in config.nav for title, to in item.items()
    ]
    return config


def on_files(found: Any, config: Any) -> Any:
    """Add the pages, the pictures and the notebooks to the site."""
    from mkdocs.structure.files import File, InclusionLevel

    examples = [read(name) for name in names()]
    contents = {"index.md": overview(examples).encode()}
    for example in examples:
        contents |= files(example, result(example))
    for path, content in contents.items():
        text_or_bytes = content.decode() if path.endswith(".md") else content
        file = File.generated(config, f"{FOLDER}/{path}", content=text_or_bytes, inclusion=InclusionLevel.INCLUDED)
        found.append(file)
    return found


def main(asked: list[str]) -> None:
    for example in map(read, asked or names()):
        for path, content in files(example, result(example)).items():
            (RESULTS / path).parent.mkdir(parents=True, exist_ok=True)
            (RESULTS / path).write_bytes(content)
    print(f"written to {RESULTS.relative_to(ROOT)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        run(*sys.argv[2:])
    else:
        main(sys.argv[1:])
