"""The documentation hangs together: every page is in the navigation, every link leads somewhere."""

import importlib
import inspect
import re
from dataclasses import is_dataclass
from enum import Enum
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
REFERENCE = [p for p in PAGES if p.parent.name == "reference" and p.stem != "problem"]  # which describes in the page
PACKAGES = ["estimators", "data", "losses", "structures", "measurements", "report", "datasets", "evaluate", "testing"]
LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)|!\[[^\]\n]*\]\(([^)\s]+)\)")


def without_code(text):
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE))


def headings(page):
    """The anchors of a page as MkDocs makes them, and the names that the reference documents."""
    text = page.read_text(encoding="utf-8")
    titles = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    plain = [re.sub(r"[^\w\s-]", "", t.encode("ascii", "ignore").decode()).strip().lower() for t in titles]
    return {re.sub(r"[-\s]+", "-", t) for t in plain} | set(re.findall(r"^::: (\S+)", text, re.MULTILINE))


def test_navigation_is_complete():
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]
    named = re.findall(r"(\S+\.md)$", nav, re.MULTILINE)
    assert sorted(named) == sorted(p.relative_to(DOCS).as_posix() for p in PAGES)


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for found in LINK.finditer(without_code(page.read_text(encoding="utf-8"))):
        target, _, anchor = (found[1] or found[2]).partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        other = (page.parent / target).resolve() if target else page
        if other.parent == DOCS / "gallery":  # the build makes its pages of the examples
            assert other.stem == "index" or (ROOT / "examples" / f"{other.stem}.py").is_file(), (
                f"{page.name}: {found[0]}"
            )
            continue
        assert other.is_file(), f"{page.name}: {found[0]}"
        if DOCS in page.parents:
            assert DOCS in other.parents, f"{page.name}: {found[0]} leads out of the site"
        if anchor and other.suffix == ".md":
            assert anchor in headings(other), f"{page.name}: {found[0]}"


@pytest.mark.parametrize("name", PACKAGES)
def test_reference_is_complete(name):
    """What a package offers is in the reference, but for types and tables."""
    module = importlib.import_module(f"rslm.{name}")
    text = (DOCS / "reference" / f"{name}.md").read_text(encoding="utf-8")
    documented = set(re.findall(rf"^::: rslm\.{name}\.(\w+)", text, re.MULTILINE))
    offered = {n for n in module.__all__ if callable(getattr(module, n)) and not n.isupper()}
    assert offered - {"Duplicates", "Seed"} <= documented


def described():
    """Every class and function of the reference and every public method of a class, with its path and docstrings."""
    for page in REFERENCE:
        for path in re.findall(r"^::: (\S+)", page.read_text(encoding="utf-8"), re.MULTILINE):
            module, _, name = path.rpartition(".")
            thing = getattr(importlib.import_module(module), name)
            doc = inspect.getdoc(thing)
            yield path, thing, doc, doc
            for name in dir(thing) if inspect.isclass(thing) else []:
                member = inspect.getattr_static(thing, name)
                member = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
                member = inspect.unwrap(getattr(member, "fn", member))  # `fn` is that of an `available_if`
                if name.startswith("_") or not inspect.isfunction(member) or not member.__module__.startswith("rslm."):
                    continue
                own = docstring(thing, name)
                yield f"{path}.{name}", member, own, f"{own}\n{doc}"


def docstring(owner, name):
    """The docstring of a method, or that of the nearest base that has one."""
    return next(
        (doc for base in owner.__mro__ if name in vars(base) and (doc := inspect.getdoc(vars(base)[name]))), None
    )


def test_every_public_name_is_described():
    """Every class, function and method has a docstring that names all parameters, or its class's docstring does.

    The fields of a dataclass are its parameters, and stand in the reference by themselves.
    """
    missing = []
    for path, thing, doc, docs in described():
        missing += [] if doc else [path]
        if is_dataclass(thing) or (inspect.isclass(thing) and issubclass(thing, tuple | Enum)):
            continue
        parameters = [p for p in inspect.signature(thing).parameters.values() if p.name not in ("self", "cls")]
        named = [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        missing += [f"{path}: {name}" for name in named if not re.search(rf"\b{name}\b", docs or "")]
    assert not missing, "\n".join(missing)


def test_undescribed_parameters_are_seen():
    """The test above looks at methods of all kinds."""
    found = {path for path, *_ in described()}
    for name in "fit", "predict_proba", "score", "recommend", "row_ids_":  # decorated, conditional, plain, a property
        assert f"rslm.estimators.MatrixCompletion.{name}" in found
    assert "rslm.data.ObservedMatrix.from_any" in found  # a method of the class
    assert "rslm.estimators.MultiTaskRegressor.save" in found  # inherited
    assert "rslm.structures.Hankel.entries" in found
