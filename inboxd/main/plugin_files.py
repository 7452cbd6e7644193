"""Finds the files of the installed plugins, as a newly started interpreter finds them.

`inboxd dev` runs this file as a script: only a new interpreter sees later installations (an
editable plugin is a line in a .pth file). No plugin is imported; one in a zip file is not found.
"""

import json
import os
import site
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from importlib.metadata import Distribution, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit


class Plugin(NamedTuple):
    """The code of a plugin. copied_from: the folder from which it was installed as a copy."""

    name: str
    path: str
    is_copy: bool = False
    copied_from: str | None = None


class Installed(NamedTuple):
    """places: folders that an installation changes. migrations: whether a plugin ships some."""

    plugins: tuple[Plugin, ...]
    places: tuple[str, ...]
    migrations: bool = False

    @property
    def paths(self) -> list[Path]:
        return sorted({Path(plugin.path) for plugin in self.plugins})


def look_up(names: Sequence[str]) -> Installed:
    command = [sys.executable, "-P", __file__, *names]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    plugins, places, migrations = json.loads(ran.stdout.splitlines()[-1])
    return Installed(tuple(Plugin(*each) for each in plugins), tuple(places), migrations)


def _installed(names: Iterable[str]) -> Installed:
    wanted = set(names)
    copies = {
        *(sysconfig.get_path(each) for each in ("purelib", "platlib")),
        *site.getsitepackages(),
        site.getusersitepackages(),
    }
    found: set[Plugin] = set()
    handlers, migrations = (
        [each for each in entry_points(group=f"inboxd.{kind}") if not wanted or each.name in wanted]
        for kind in ("handlers", "migrations")
    )
    for point in (*handlers, *migrations):
        for path in _code_of(point.module.partition(".")[0]):
            is_copy = any(path.is_relative_to(folder) for folder in copies)
            origin = _origin(point.dist) if is_copy else None
            found.add(Plugin(point.name, str(path), is_copy, origin))
    places = (place for place in sys.path if place and Path(place).is_dir())
    return Installed(tuple(sorted(found)), tuple(places), bool(migrations))


def _code_of(package: str) -> list[Path]:
    spec = find_spec(package)
    if spec is None:
        return []
    named = spec.submodule_search_locations or [spec.origin or ""]
    return [Path(each).resolve() for each in named if each and Path(each).exists()]


def _origin(dist: Distribution | None) -> str | None:
    """Return the folder from which a distribution was installed, if pip recorded it (PEP 610)."""
    noted = dist.read_text("direct_url.json") if dist else None
    url = urlsplit(json.loads(noted)["url"]) if noted else None
    return unquote(url.path) if url and url.scheme == "file" else None


if __name__ == "__main__":
    sys.stdout.write(f"{os.linesep}{json.dumps(_installed(sys.argv[1:]))}")
