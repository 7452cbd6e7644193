"""The gate's settings, read from `.ci/gate.toml`."""

import os
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SETTINGS = ROOT / ".ci/gate.toml"

_PYTHONS = ("3.14", "3.13", "3.12", "3.11")
_KEYS = {"deadline", "needs_root", "leftovers", "program", "environment", "stage"}
_KEYS |= {"slices_begin_within", "second_looks", "everything", "touches"}


@dataclass(frozen=True)
class Program:
    """A program without which tests skip themselves, and Debian's package of it."""

    package: str
    found: tuple[str, ...]


@dataclass(frozen=True)
class Leftovers:
    """Whether to end leftover processes, and patterns of leftover folders.

    servers: of PostgreSQL servers of tests. embedded_servers: of those that developers may use too.
    folders: others.
    """

    processes: bool = False
    servers: tuple[str, ...] = ()
    embedded_servers: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stage:
    """A part of the run: arguments of make, and a limit in seconds.

    usual: its seconds on two quiet cores. pytest: whether its results are read test by test.
    ends_early: whether the run ends if it is red. slice: the slice that it belongs to; "" if it
    runs each time.
    """

    name: str
    make: tuple[str, ...]
    limit: float
    usual: float = 0.0
    pytest: bool = True
    ends_early: bool = False
    slice: str = ""

    @property
    def file_name(self) -> str:
        """The name as a part of file names."""
        return "-".join(self.name.replace(",", "").lower().split())


@dataclass(frozen=True)
class Settings:
    """All of the file; `environments` are arguments of make, `deadline` is in seconds.

    needs_root: whether tests skip themselves unless they run as root. touches: slices, with the
    patterns of the files that touch each. everything: patterns of files that touch all slices.
    slices_begin_within: seconds after which an untouched slice does not begin. second_looks:
    seconds before the deadline that are kept for second looks.
    """

    deadline: float
    needs_root: bool
    leftovers: Leftovers
    programs: tuple[Program, ...]
    environments: tuple[tuple[str, ...], ...]
    stages: tuple[Stage, ...]
    touches: Mapping[str, tuple[str, ...]]
    everything: tuple[str, ...]
    slices_begin_within: float
    second_looks: float


def read_settings() -> Settings:
    """Read `.ci/gate.toml`. Raises ValueError, TypeError or KeyError for a wrong or missing key."""
    told = tomllib.loads(SETTINGS.read_text())
    if unknown := told.keys() - _KEYS:
        raise ValueError(f"{SETTINGS.name}: unknown keys: {', '.join(sorted(unknown))}")

    def filled(arguments: list[str]) -> tuple[str, ...]:
        return tuple(
            each.replace("{newest}", _newest_python()) if "{newest}" in each else each
            for each in arguments
        )

    stages = tuple(Stage(**{**each, "make": filled(each["make"])}) for each in told["stage"])
    touches = {name: tuple(patterns) for name, patterns in told.get("touches", {}).items()}
    if touches.keys() != (named := {each.slice for each in stages if each.slice}):
        raise ValueError(f"{SETTINGS.name}: slices of [touches] and of stages differ: {named}")
    return Settings(
        told["deadline"],
        told.get("needs_root", False),
        _leftovers(told.get("leftovers", {})),
        tuple(Program(each["package"], tuple(each["found"])) for each in told.get("program", ())),
        tuple(filled(each["make"]) for each in told.get("environment", ())),
        stages,
        touches,
        tuple(told.get("everything", ())),
        told.get("slices_begin_within", told["deadline"]),
        told.get("second_looks", 0),
    )


def _leftovers(told: Mapping[str, Any]) -> Leftovers:
    patterns = {name: tuple(each) for name, each in told.items() if name != "processes"}
    return Leftovers(told.get("processes", False), **patterns)


@cache
def _newest_python() -> str:
    """The newest Python, also of pyenv, of which an environment can be made."""
    for python in _pythons():
        question = [python, "-c", "import ensurepip, ssl, venv"]
        try:
            if subprocess.run(question, capture_output=True, check=False).returncode == 0:
                return python
        except OSError:
            continue
    return "python3"


def _pythons() -> Iterator[str]:
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for version in _PYTHONS:
        yield f"python{version}"
        yield from map(str, sorted(pyenv.glob(f"versions/{version}.*/bin/python"), reverse=True))
