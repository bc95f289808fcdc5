"""The reference, as it is rendered, agrees with the signatures: names, types and defaults, and no method is missing.

What the pages show is read as MkDocs reads it: by griffe, with the options and the extensions of mkdocs.yml.
"""

import ast
import importlib
import inspect
import re
from pathlib import Path

import griffe
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
PLUGINS = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["plugins"]
OPTIONS = next(p["mkdocstrings"] for p in PLUGINS if "mkdocstrings" in p)["handlers"]["python"]["options"]
ENTRY = re.compile(r"^::: (\S+)(?:\n    options: (.+))?", re.MULTILINE)
ENTRIES = [
    (path, yaml.safe_load(options or "{}"))
    for page in sorted((ROOT / "docs" / "reference").glob("*.md"))
    for path, options in ENTRY.findall(page.read_text(encoding="utf-8"))
]
ESTIMATORS = [path for path, _ in ENTRIES if re.match(r"rslm\.estimators\.(?!C_)[A-Z]", path)]


@pytest.fixture(scope="module")
def package():
    extensions = [str(ROOT / e) if e.endswith(".py") else e for e in OPTIONS["extensions"]]
    return griffe.load(
        "rslm",
        search_paths=[ROOT / "src"],
        extensions=griffe.load_extensions(*extensions),
        docstring_parser=OPTIONS["docstring_style"],
        docstring_options=OPTIONS["docstring_options"],
    )


def rendered(package, path, options):
    """An entry of the reference and the members below it, as (what Python has, what is shown)."""
    module, _, name = path.rpartition(".")
    thing, shown = getattr(importlib.import_module(module), name), package[path.removeprefix("rslm.")]
    found = {path: (thing, shown)}
    if not inspect.isclass(thing):
        return found
    inherited = (OPTIONS | options).get("inherited_members", False)
    hidden = [filtered.removeprefix("!") for filtered in (OPTIONS | options)["filters"]]
    for name, member in (shown.all_members if inherited else shown.members).items():
        if not member.has_docstring or name not in options.get("members", [name]):
            continue
        if any(re.search(pattern, name) for pattern in hidden):
            continue
        if member.is_function:
            found[f"{path}.{name}"] = (function_of(thing, name), member)
        else:
            found[f"{path}.{name}"] = (None, member)
    return found


def function_of(owner, name):
    """The function that a method is made of, below `classmethod`, `available_if` and other decorators."""
    member = inspect.getattr_static(owner, name)
    member = getattr(member, "__func__", member)
    return inspect.unwrap(getattr(member, "fn", member))


def parameters_of(shown):
    sections = shown.docstring.parsed if shown.docstring else []
    return [item for section in sections if section.kind.value == "parameters" for item in section.value]


@pytest.mark.parametrize(("path", "options"), ENTRIES, ids=[path for path, _ in ENTRIES])
def test_parameters_are_those_of_the_signature(package, path, options):
    wrong = []
    for name, (thing, shown) in rendered(package, path, options).items():
        if thing is None:
            continue
        signature, doc = inspect.signature(thing).parameters, inspect.cleandoc(shown.docstring.value)
        for item in parameters_of(shown):
            parameter = signature.get(item.name.lstrip("*"))
            if parameter is None:
                wrong.append(f"{name}: {item.name} is no parameter")
                continue
            default = parameter.empty if item.default is None else value(str(item.default), thing)
            stated = re.search(rf"^{re.escape(item.name)} : .*, default=(.+)$", doc, re.MULTILINE)
            if repr(default) != repr(parameter.default):
                wrong.append(f"{name}: {item.name} has default {parameter.default!r}, shown is {item.default}")
            if stated and value(stated[1], thing) != parameter.default:
                wrong.append(f"{name}: {item.name} has default {parameter.default!r}, written is {stated[1]}")
            if bare(f" : {item.annotation}") not in bare(doc) and bare(item.annotation) != bare(parameter.annotation):
                wrong.append(f"{name}: {item.name} has type {parameter.annotation}, shown is {item.annotation}")
    assert not wrong, "\n".join(wrong)


def value(text, thing):
    try:
        return ast.literal_eval(text)
    except ValueError:
        return eval(text, vars(importlib.import_module(thing.__module__)))


def bare(annotation):
    return str(annotation).replace("'", '"')


@pytest.mark.parametrize("path", ESTIMATORS)
def test_all_methods_of_estimators_are_shown(package, path):
    """Inherited ones too, but for those of scikit-learn, and for those that the estimator has with no loss."""
    thing = getattr(importlib.import_module("rslm.estimators"), path.split(".")[-1])
    estimators = [thing()] if "loss" not in thing().get_params() else [thing(loss="square"), thing(loss="logistic")]
    wanted = {f"{path}.set_callbacks"}  # scikit-learn's own from its 1.9 on; the page shows ours, which is the same
    for base in thing.__mro__:
        for name, member in vars(base).items() if base.__module__.startswith("rslm.") else ():
            if re.match(r"_|set_\w+_request$", name) or not hasattr(member, "__get__"):
                continue
            if not hasattr(member, "fn") or any(hasattr(e, name) for e in estimators):  # `fn` is of an `available_if`
                wanted.add(f"{path}.{name}")
    assert wanted == set(rendered(package, path, dict(ENTRIES)[path])) - {path}


def test_recommending_is_shown(package):
    """The test above sees mixins."""
    path = "rslm.estimators.MatrixCompletion"
    assert {f"{path}.recommend", f"{path}.recommend_for"} <= set(rendered(package, path, dict(ENTRIES)[path]))


def test_a_parameter_of_a_group_has_its_own_default(package):
    items = {item.name: item for item in parameters_of(package["estimators.MultiTaskClassifier"])}
    assert (str(items["fit_intercept"].annotation), str(items["fit_intercept"].default)) == ("bool", "True")
    assert (str(items["C"].annotation), str(items["C"].default)) == ("float | str", "'auto'")
