"""Virtual environments outside the checkout, with only the packages that a wheel declares.

    build(wheels, ROOT)
    environment = make(folder, wheels, "embedded")
    environment.run("pip install inboxd && inboxd --version", folder)

Nothing is downloaded: the declared distributions, and the distributions that these require, are
links to the files of this interpreter. A package that inboxd uses but does not declare is missing
there, though the tests' environment has it. The environment's `pip` installs from a folder of
wheels, and from source folders; only pip sees build backends.
"""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from email.parser import HeaderParser
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
_BACKENDS = ("hatchling", "editables", "setuptools")
_PIP = """#!/bin/sh
command=$1; shift
export PYTHONPATH="{backends}"
exec "{python}" -m pip -q --disable-pip-version-check --python "{folder}/bin/python" "$command" \\
  --no-index --find-links "{wheels}" --no-deps --no-build-isolation "$@"
"""
_SCRIPT = """#!{folder}/bin/python
import sys
from {module} import {attr}
sys.exit({attr}())
"""


@dataclass(frozen=True)
class Environment:
    """A virtual environment, and the environment variables of its commands."""

    folder: Path
    environ: Mapping[str, str]

    def run(self, line: str, folder: Path, **more: str) -> str:
        """Run a shell command; return its output. Raises AssertionError when the command fails."""
        ran = subprocess.run(
            ["/bin/sh", "-c", line],
            cwd=folder,
            env={**self.environ, **more},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, f"{line}\n{ran.stdout}"
        return ran.stdout


def build(folder: Path, *sources: Path) -> None:
    """Build the wheels of these source folders, or sdists, into a folder."""
    options = ["--no-deps", "--no-build-isolation", "--quiet", "--disable-pip-version-check"]
    command: list[str | Path] = [sys.executable, "-m", "pip", "wheel"]
    command += [*options, "--wheel-dir", folder, *sources]
    ran = subprocess.run(command, env=_environ(), capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def build_sdist(folder: Path) -> Path:
    """Build the sdist of this checkout; return its path."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(folder)]
    ran = subprocess.run(
        command, cwd=ROOT, env=_environ(), capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    [built] = folder.glob("inboxd-*.tar.gz")
    return built


def make(folder: Path, wheels: Path, *extras: str, also: Iterable[str] = ()) -> Environment:
    """Make an environment in which inboxd's wheel can be installed with its dependencies.

    also: further requirements that are there.
    """
    venv.create(folder, symlinks=True)
    [site] = folder.glob("lib/python*/site-packages")
    [wheel] = wheels.glob("inboxd-[0-9]*.whl")
    for found in _closure([*needs(wheel, *extras), *also]):
        _link(found, site)
        _write_scripts(found, folder)
    backends = folder / "backends"
    backends.mkdir()
    for found in _closure(_BACKENDS):
        _link(found, backends)
    known = {"folder": folder, "wheels": wheels, "backends": backends, "python": sys.executable}
    _write_program(folder / "bin/pip", _PIP.format(**known))
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return Environment(folder, {**_environ(), "PATH": path})


def needs(wheel: Path, *extras: str) -> list[str]:
    """The requirements of a wheel and of these extras."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
        about = HeaderParser().parsestr(archive.read(name).decode())
    found: list[str] = []
    todo, seen = {"", *extras}, set[str]()
    while todo:
        extra = todo.pop()
        seen.add(extra)
        for text in about.get_all("Requires-Dist", []):
            each = Requirement(text)
            if each.marker is not None and not each.marker.evaluate({"extra": extra}):
                continue
            if each.name == about["Name"]:
                todo |= each.extras - seen
            else:
                found.append(str(each))
    return found


def _closure(requirements: Iterable[str]) -> list[Distribution]:
    """The distributions of these requirements, and all that they require."""
    found: dict[str, Distribution] = {}
    todo = [Requirement(each) for each in requirements]
    seen: set[tuple[str, frozenset[str]]] = set()
    while todo:
        wanted = todo.pop()
        key = (canonicalize_name(wanted.name), frozenset(wanted.extras))
        if key in seen:
            continue
        seen.add(key)
        dist = found[key[0]] = distribution(wanted.name)
        for text in dist.requires or ():
            each = Requirement(text)
            asking = [{"extra": extra} for extra in ("", *wanted.extras)]
            if each.marker is None or any(map(each.marker.evaluate, asking)):
                todo.append(each)
    return list(found.values())


def _link(dist: Distribution, site: Path) -> None:
    origin = Path(sysconfig.get_path("purelib"))
    for top in {file.parts[0] for file in dist.files or ()} - {"..", "__pycache__"}:
        if not (site / top).exists():
            (site / top).symlink_to(origin / top)


def _write_scripts(dist: Distribution, folder: Path) -> None:
    for point in dist.entry_points.select(group="console_scripts"):
        text = _SCRIPT.format(folder=folder, module=point.module, attr=point.attr)
        _write_program(folder / "bin" / point.name, text)


def _write_program(file: Path, text: str) -> None:
    file.unlink(missing_ok=True)
    file.write_text(text)
    file.chmod(0o755)


def _environ() -> dict[str, str]:
    """This process's environment, without variables that redirect Python or inboxd."""
    leads = ("INBOXD_", "PYTHON", "PYTEST", "VIRTUAL_ENV", "COV_")
    return {name: value for name, value in os.environ.items() if not name.startswith(leads)}
