"""The lowest versions that pyproject.toml allows, as constraints for pip.

    python -m tests.support.lowest > constraints-lowest.txt

The bounds are in pyproject.toml alone; `make test-lowest` installs exactly these. Promises: a
requirement without a lower bound, or with anything beside it (a cap, an excluded version), is
refused.
"""

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
# Extras for users of the daemon. Packages for tests are as new as possible.
EXTRAS = ("embedded", "dev", "demo", "http", "oidc")

_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?:\[[\w,-]+\])?>=(?P<bound>[\w.]+)")


def lowest(project: Mapping[str, Any]) -> dict[str, str]:
    """The lowest version of each dependency. Raises ValueError."""
    return dict(map(_bound, _requirements(project["project"])))


def _requirements(metadata: Mapping[str, Any]) -> Iterator[str]:
    """The requirements of the daemon and of the users' extras, without the project itself."""
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
