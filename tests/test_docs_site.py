"""The documentation hangs together: every page is in the navigation, every link leads somewhere."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
REFERENCE = [p for p in PAGES if p.parent.name == "reference" and p.stem != "problem"]  # which describes in the page
PACKAGES = ["estimators", "data", "losses", "structures", "measurements", "report", "datasets", "testing"]
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


def test_every_public_name_is_described():
    """Every class and function of the reference, and every method of a class, has a docstring."""

    def silent(owner, path):
        for name, member in vars(owner).items():
            it = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            if not name.startswith("_") and inspect.isfunction(it) and not inspect.getdoc(getattr(owner, name)):
                yield f"{path}.{name}"

    missing = []
    for page in REFERENCE:
        for path in re.findall(r"^::: (\S+)", page.read_text(encoding="utf-8"), re.MULTILINE):
            module, _, name = path.rpartition(".")
            thing = getattr(importlib.import_module(module), name)
            missing += [] if inspect.getdoc(thing) else [path]
            missing += silent(thing, path) if inspect.isclass(thing) else []
    assert missing == []
