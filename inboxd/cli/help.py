"""Groups of commands whose help shows what wants a value, and only that, as if it did.

Owns the classes that every command and group is made of. Known limit: it rests on how Typer asks an
option or argument for its type's name.
"""

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption


class CommandGroup(typer.Typer):
    """As Typer's own, of commands with plain help."""

    def __init__(self, **words: Any) -> None:
        super().__init__(cls=_Group, **words)

    def command(self, name: str | None = None, **words: Any) -> Callable[[Any], Any]:
        """As Typer's own."""
        return super().command(name, cls=_Command, **words)


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        """As they are, but for the type of flags and of what has a name of its own."""
        return _plain(super().get_params(ctx))


class _Group(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        """As a command's."""
        return _plain(super().get_params(ctx))


def _plain(params: list[Any]) -> list[Any]:
    for each in params:
        if isinstance(each, TyperOption) and each.is_flag:
            each.metavar = ""  # not <bool>, which reads as if it wanted a value
        elif isinstance(each, TyperArgument) and each.metavar:
            # Not <list[str]> beside ID; an argument has no other place for it.
            setattr(each, "display_type_rich", _no_type)  # noqa: B010 - Typer has no other way
    return params


def _no_type(ctx: Any) -> None:
    del ctx
