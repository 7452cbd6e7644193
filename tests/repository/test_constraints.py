"""Developers and CI install fixed versions on each Python."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.constraints import FILE, lines, named, requirements

ROOT = Path(__file__).parents[2]
PROJECTS = (
    *("pyproject.toml", "tests/plugin/pyproject.toml", "benchmarks/plugin/pyproject.toml"),
    *(str(each.relative_to(ROOT)) for each in (ROOT / "examples").glob("*/pyproject.toml")),
)


def held() -> dict[str, Requirement]:
    """The constraints of this Python, by package."""
    told = [Requirement(line) for line in FILE.read_text().splitlines() if line[:1] != "#"]
    here = [each for each in told if each.marker is None or each.marker.evaluate()]
    found: dict[str, Requirement] = {canonicalize_name(each.name): each for each in here}
    assert len(found) == len(here), "each package has one version on a Python"
    return found


def test_each_dependency_has_one_version_that_its_bound_allows() -> None:
    """Run `make constraints` after a new dependency or a raised bound."""
    constraints = held()
    asked = requirements(tomllib.loads((ROOT / each).read_text()) for each in PROJECTS)
    for each in map(Requirement, asked):
        [pin] = constraints[canonicalize_name(each.name)].specifier
        assert pin.operator == "=="
        assert each.specifier.contains(pin.version), each


def test_a_version_that_differs_between_pythons_has_a_marker() -> None:
    found = {
        "3.11": {"same": "1", "old": "5", "moves": "1", "backport": "2"},
        "3.12": {"same": "1", "old": "6", "moves": "2"},
        "3.13": {"same": "1", "old": "6", "moves": "3"},
    }
    assert [*lines(found)] == [
        "backport==2",
        'moves==1; python_version < "3.12"',
        'moves==2; python_version >= "3.12" and python_version < "3.13"',
        'moves==3; python_version >= "3.13"',
        'old==5; python_version < "3.12"',
        'old==6; python_version >= "3.12"',
        "same==1",
    ]


def test_requirements_of_projects_include_extras_but_not_each_other() -> None:
    first = {"name": "first", "dependencies": ["a>=1"], "optional-dependencies": {"x": ["b[c]>=2"]}}
    second = {"name": "second", "dependencies": ["first[x]", "a>=1"]}
    found = requirements([{"project": first}, {"project": second}])
    assert [each for each in found if named(each) in {"a", "b", "first"}] == ["a>=1", "b[c]>=2"]


def test_make_setup_uses_the_constraints() -> None:
    makefile = (ROOT / "Makefile").read_text()
    installs = re.findall(r"\$\(PIP\) install (.*)", makefile)
    assert installs
    assert all(each.startswith("$(HELD) ") for each in installs)
