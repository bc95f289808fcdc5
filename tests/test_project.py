"""Files of the project that repeat one another: they have to agree."""

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]


def read(name):
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def name_of(requirement):
    """Its name, as package indexes compare names."""
    return normal(re.match(r"[\w.-]+", requirement)[0])


def locked():
    text = (ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8")
    return text, {normal(found) for found in re.findall(r"^([\w.-]+)==", text, re.MULTILINE)}


def needed(requirements):
    """Names of these requirements, with those of our own extras."""
    for requirement in requirements:
        if isinstance(requirement, dict):
            yield from needed(PYPROJECT["dependency-groups"][requirement["include-group"]])
        elif name_of(requirement) == "rslm":
            for extra in re.search(r"\[(.*)\]", requirement)[1].split(","):
                yield from needed(PROJECT["optional-dependencies"][extra])
        else:
            yield name_of(requirement)


def test_the_citation_has_the_version_and_the_authors():
    citation = read("CITATION.cff")
    assert str(citation["version"]) == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    assert citation["authors"] == PROJECT["authors"]
    assert citation["repository-code"] == PROJECT["urls"]["Homepage"]


def test_the_conda_recipe_has_the_version_and_the_requirements():
    recipe = read("recipe/recipe.yaml")
    assert recipe["context"]["version"] == PROJECT["version"]
    assert PROJECT["requires-python"] == f">={recipe['context']['python_min']}"
    wanted = PROJECT["dependencies"] + PROJECT["optional-dependencies"]["cli"]
    assert {line.replace(" ", "") for line in recipe["requirements"]["run"]} == {"python", *wanted}
    host = {line.replace(" ", "") for line in recipe["requirements"]["host"]}
    assert host >= set(PYPROJECT["build-system"]["requires"])


def test_the_locked_environment_has_all_that_is_needed():
    text, names = locked()
    assert {*needed(PROJECT["dependencies"]), *needed(PYPROJECT["dependency-groups"]["dev"])} <= names
    assert "rslm" not in names  # it is compiled from the sources
    assert "://" not in text  # it works with any index


def test_the_hook_of_ruff_has_the_locked_version():
    text, _ = locked()
    hooks = read(".pre-commit-config.yaml")["repos"]
    revision = next(each["rev"] for each in hooks if each["repo"].endswith("ruff-pre-commit"))
    assert revision == "v" + re.search(r"^ruff==(\S+)", text, re.MULTILINE)[1]
