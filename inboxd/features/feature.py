"""The record by which the core knows a feature."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CliCommand:
    """before: the command of the core that `--help` lists after it."""

    run: Callable[..., None]
    examples: tuple[str, ...]
    before: str


@dataclass(frozen=True, slots=True)
class Feature:
    """name: that of its folder below `inboxd/features`."""

    name: str
    commands: tuple[CliCommand, ...]
