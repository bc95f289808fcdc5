"""Pip constraints for the oldest versions that pyproject.toml allows: `python tests/oldest_versions.py test docs`.

The arguments are extras; the dependencies of the package itself are always among them. There is no second list of
versions, so a lower limit in pyproject.toml is what is tested.
"""

import re
import sys
import tomllib
from pathlib import Path

REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(\[(?P<extras>[\w,-]+)\])?(>=(?P<oldest>[\w.]+))?")


def constraints(project: dict, extras: list[str]) -> set[str]:
    """One line for every direct dependency; extras that name extras of the package itself are followed."""
    found, to_read = set(), [project["dependencies"], *(project["optional-dependencies"][extra] for extra in extras)]
    while to_read:
        for line in to_read.pop():
            part = REQUIREMENT.match(line)
            if part["name"] == project["name"]:
                to_read += [project["optional-dependencies"][extra] for extra in part["extras"].split(",")]
            elif part["oldest"] is None:
                raise SystemExit(f"pyproject.toml: {line!r} has no lower limit; write {part['name']}>=…")
            else:
                found.add(f"{part['name']}=={part['oldest']}")
    return found


if __name__ == "__main__":
    pyproject = Path(__file__).parents[1] / "pyproject.toml"
    print(*sorted(constraints(tomllib.loads(pyproject.read_text())["project"], sys.argv[1:])), sep="\n")
