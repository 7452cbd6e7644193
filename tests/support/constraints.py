"""Writes `constraints.txt`: the version of each package that developers and CI install.

An upload to PyPI turns no test red: versions change only when `make constraints` was run, in a
commit of their own. pip resolves the requirements of pyproject.toml and the plugins, once with each
Python at hand. Where the results differ, lines have markers; those of the newest Python also hold
for newer ones. Known limit: only wheels are found; so far all packages have some.
"""

import argparse
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[2] / "constraints.txt"
HEAD = """\
# The version of each package that developers and CI install. `make constraints` wrote it; `make
# setup` heeds it, `make test-lowest` does not. Users are bound by pyproject.toml alone.
"""
# Needed to install the project, and the plugins in place.
_BUILD = ("hatchling>=1.27", "editables>=0.5")
_PIP = ("-m", "pip", "install", "--disable-pip-version-check", "--quiet")
_RESOLVE = ("--dry-run", "--ignore-installed", "--report=-", "--only-binary=:all:")


def requirements(projects: Iterable[Mapping[str, Any]]) -> list[str]:
    """The requirements of these projects and of all their extras, without the projects."""
    given = [each["project"] for each in projects]
    own = {each["name"] for each in given}
    found = set(_BUILD)
    for metadata in given:
        found.update(metadata.get("dependencies", ()))
        for extra in metadata.get("optional-dependencies", {}).values():
            found.update(extra)
    return sorted(each for each in found if named(each) not in own)


def named(requirement: str) -> str:
    """The package name of a requirement."""
    return requirement.partition("[")[0].partition(">")[0].strip()


def lines(versions: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Constraints from the versions by Python and package; the oldest Python comes first."""
    for name in sorted({name for found in versions.values() for name in found}):
        firsts: list[tuple[str, str]] = []  # a Python, and the version from it on
        for python, found in versions.items():
            if name in found and (not firsts or firsts[-1][1] != found[name]):
                firsts.append((python, found[name]))
        for place, (python, version) in enumerate(firsts):
            bounds = [f'python_version >= "{python}"'] if place else []
            bounds += [f'python_version < "{after}"' for after, _ in firsts[place + 1 : place + 2]]
            yield f"{name}=={version}" + (f"; {' and '.join(bounds)}" if bounds else "")


def _resolved(python: str, asked: list[str]) -> tuple[str, dict[str, str]]:
    """The version of a Python, and the packages that its pip would install without any present."""
    command = [python, *_PIP, *_RESOLVE, *asked]
    report = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    found = [each["metadata"] for each in report["install"]]
    versions = {each["name"].lower().replace("_", "-"): each["version"] for each in found}
    return report["environment"]["python_version"], versions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", action="append", required=True)
    parser.add_argument("project", nargs="+", type=Path, help="pyproject.toml")
    given = parser.parse_args()
    asked = requirements(tomllib.loads(each.read_text()) for each in given.project)
    found = dict(_resolved(python, asked) for python in given.python)
    versions = {python: found[python] for python in sorted(found, key=_by_number)}
    FILE.write_text(HEAD + "".join(f"{line}\n" for line in lines(versions)))
    sys.stdout.write(f"{FILE.name}: resolved with Python {', '.join(versions)}\n")


def _by_number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


if __name__ == "__main__":
    main()
