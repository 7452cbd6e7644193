"""Groups of commands: options that are declared once, and help that shows what wants a value.

Owns the classes that every command and group is made of. A parameter of a command whose type is a
class of `Options` is one option for each field of that class; the command gets the object.
Known limit: it rests on how Typer reads a function's signature, and asks an option or argument for
its type's name.
"""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any, cast, get_type_hints

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

# What Typer raises for what was typed, and click in its place up to Typer 0.24: the root of both.
MISTYPED = cast(
    "type[typer.TyperException]",
    next(each for each in typer.BadParameter.__mro__ if each.__base__ is Exception),
)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options that several commands share: each field an option, annotated as Typer wants it."""


class CommandGroup(typer.Typer):
    """As Typer's own, of commands with plain help and shared options."""

    def __init__(self, **words: Any) -> None:
        super().__init__(cls=_Group, **words)

    def command(
        self,
        name: str | None = None,
        *,
        options: "Mapping[str, type[Options]] | None" = None,
        **words: Any,
    ) -> Callable[[Any], Any]:
        """As Typer's own. options: of parameters whose class is not known where they stand."""
        register = super().command(name, cls=_Command, **words)

        def add(function: Callable[..., None]) -> Callable[..., None]:
            register(_flat(function, options or {}))
            return function

        return add


def _flat(
    function: Callable[..., None], options: Mapping[str, type[Options]]
) -> Callable[..., None]:
    """The function with an option for each field of its parameters that are `Options`."""
    hints = get_type_hints(function, include_extras=True) | dict(options)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, type[Options]] = {}
    for each in inspect.signature(function).parameters.values():
        hint = hints[each.name]
        if isinstance(hint, type) and issubclass(hint, Options):
            groups[each.name] = hint
            parameters += _of(hint)
        else:
            parameters.append(each.replace(annotation=hint))

    @wraps(function)
    def run(**given: Any) -> None:
        made = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        function(**given, **made)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # as Typer reads it
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _of(group: type[Options]) -> Iterator[inspect.Parameter]:
    """A parameter for each field, those of the class before those of its bases."""
    hints = get_type_hints(group, include_extras=True)
    by_name = {field.name: field for field in fields(group)}
    for kind in group.__mro__:
        for name in inspect.get_annotations(kind):
            if (field := by_name.pop(name, None)) is not None:
                yield inspect.Parameter(
                    name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=field.default,
                    annotation=hints[name],
                )


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        """As they are, but for the type of flags and of what has a name of its own."""
        return _plain(super().get_params(ctx))


# What a group is called, too.
_OTHER_NAMES = {"sources": "messages"}


class _Group(TyperGroup):
    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """By its name, or by another one that it has."""
        found = super().get_command(ctx, cmd_name)
        return found or super().get_command(ctx, _OTHER_NAMES.get(cmd_name, ""))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As Typer's; of a name that stands elsewhere, it says where."""
        try:
            return super().resolve_command(ctx, args)
        except MISTYPED as error:
            known = _called(args[0], ctx.find_root().command) if args else []
            if known and isinstance(told := getattr(error, "message", None), str):
                vars(error)["message"] = f"{told.rstrip('.')}. There is: {', '.join(known)}."
            raise

    def get_params(self, ctx: Any) -> list[Any]:
        """As a command's."""
        return _plain(super().get_params(ctx))


def _called(name: str, group: Any, above: str = "") -> list[str]:
    """The commands below a group that are called so, by all their words."""
    found = []
    for own, command in group.commands.items():
        path = f"{above} {own}".strip()
        if own == name and not command.hidden:
            found.append(path)
        if isinstance(command, _Group):
            found += _called(name, command, path)
    return found


# What the library that reads values says, in words for whoever typed them.
_WORDS = (
    (r"Value error, ", ""),
    (r"Input should be a valid integer\b.*", "it is not a whole number"),
    (r"Input should be a valid number\b.*", "it is not a number"),
    (r"Input should be greater than or equal to (\S+)", r"it is to be \1 at least"),
    (r"Input should be less than or equal to (\S+)", r"it is to be \1 at most"),
)


def in_our_words(told: str) -> str:
    """What is said of something mistyped."""
    for words, ours in _WORDS:
        told = re.sub(words, ours, told)
    return told


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
