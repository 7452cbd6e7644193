"""The lowest versions that pyproject.toml allows, as constraints for pip.

Owns how they are read: the bounds stand in pyproject.toml alone, and `make test-lowest` installs
exactly those. Promises: a requirement that has no lower bound, or anything beside one (a cap, a
version left out), is refused.
"""

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
# What users install beside the daemon. What tests need is as new as it comes.
EXTRAS = ("embedded", "dev", "demo", "http", "oidc")

_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?:\[[\w,-]+\])?>=(?P<bound>[\w.]+)")


def lowest(project: Mapping[str, Any]) -> dict[str, str]:
    """The lowest version of each dependency. Raises ValueError."""
    return dict(map(_bound, _requirements(project["project"])))


def _requirements(metadata: Mapping[str, Any]) -> Iterator[str]:
    """What the daemon and the extras for users need, but for the project itself."""
    extras = metadata["optional-dependencies"]
    yield from metadata["dependencies"]
    for extra in EXTRAS:
        yield from (each for each in extras[extra] if not each.startswith(f"{metadata['name']}["))


def _bound(requirement: str) -> tuple[str, str]:
    found = _REQUIREMENT.fullmatch(requirement)
    if found is None:
        raise ValueError(
            f"{requirement!r}: a dependency has a lower bound as in 'name>=1.2', nothing else: "
            "a cap only moves the conflict to the plugins that are installed beside inboxd."
        )
    return found["name"], found["bound"]


if __name__ == "__main__":
    for name, bound in lowest(tomllib.loads(PROJECT.read_text())).items():
        sys.stdout.write(f"{name}=={bound}\n")
