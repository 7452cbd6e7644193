"""Base classes of commands and groups: shared options, and help without types of flags.

Each field of an `Options` parameter becomes an option. Known limit: it depends on how Typer reads a
function's signature and the type names of parameters.
"""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any, cast, get_type_hints

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from inboxd.model.misfit import in_other_words

# Base class of Typer's errors about a mistyped command line; up to Typer 0.24 it is click's class.
MISTYPED = cast(
    "type[typer.TyperException]",
    next(each for each in typer.BadParameter.__mro__ if each.__base__ is Exception),
)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options that several commands share: each field is an option, annotated as Typer requires.

    @dataclass(frozen=True, kw_only=True)
    class Paging(Options):
        limit: Annotated[int, typer.Option(metavar="N")] = 20
    """


class CommandGroup(typer.Typer):
    def __init__(self, **words: Any) -> None:
        super().__init__(cls=_Group, **words)

    def command(
        self,
        name: str | None = None,
        *,
        options: "Mapping[str, type[Options]] | None" = None,
        **words: Any,
    ) -> Callable[[Any], Any]:
        """Add a command, as Typer does. options: the classes of parameters annotated as Any."""
        register = super().command(name, cls=_Command, **words)

        def add(function: Callable[..., None]) -> Callable[..., None]:
            register(_flat(function, options or {}))
            return function

        return add


def _flat(
    function: Callable[..., None], options: Mapping[str, type[Options]]
) -> Callable[..., None]:
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
    """Yield a parameter for each field: the class's own fields first, then its bases' fields."""
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


def _unwrapped(text: str | None) -> str | None:
    """Join the lines of each paragraph: Typer prints the line breaks of a docstring."""
    if text is None:
        return None
    paragraphs = re.split(r"\n\s*\n", text.strip())
    return "\n\n".join(" ".join(each.split()) for each in paragraphs)


class _Command(TyperCommand):
    def __init__(self, *given: Any, **words: Any) -> None:
        super().__init__(*given, **words | {"help": _unwrapped(words.get("help"))})

    def get_params(self, ctx: Any) -> list[Any]:
        return _plain(super().get_params(ctx))


_ALIASES = {"sources": "messages"}


class _Group(TyperGroup):
    def __init__(self, *given: Any, **words: Any) -> None:
        super().__init__(*given, **words | {"help": _unwrapped(words.get("help"))})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        found = super().get_command(ctx, cmd_name)
        return found or super().get_command(ctx, _ALIASES.get(cmd_name, ""))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except MISTYPED as error:
            known = _called(args[0], ctx.find_root().command) if args else []
            if known and isinstance(told := getattr(error, "message", None), str):
                names = ", ".join(known)
                vars(error)["message"] = f"{told.rstrip('.')}. Commands of this name: {names}."
            raise

    def get_params(self, ctx: Any) -> list[Any]:
        return _plain(super().get_params(ctx))


def _called(name: str, group: Any, above: str = "") -> list[str]:
    found = []
    for own, command in group.commands.items():
        path = f"{above} {own}".strip()
        if own == name and not command.hidden:
            found.append(path)
        if isinstance(command, _Group):
            found += _called(name, command, path)
    return found


# Messages of the library that parses values, and our own ones, in the words of
# `inboxd.model.misfit`.
_WORDS = (
    (r"Input should be a valid integer\b.*", "must be a whole number"),
    (r"Input should be a valid number\b.*", "must be a number"),
    (r"Input should be greater than or equal to (\S+)", r"must be at least \1"),
    (r"Input should be less than or equal to (\S+)", r"must be at most \1"),
)


def in_our_words(told: str) -> str:
    for words, ours in _WORDS:
        told = re.sub(words, ours, told)
    return in_other_words(told)


def _plain(params: list[Any]) -> list[Any]:
    for each in params:
        if isinstance(each, TyperOption) and each.is_flag:
            each.metavar = ""  # <bool> would look as if the flag took a value
        elif isinstance(each, TyperArgument) and each.metavar:
            # Else the help shows <list[str]> beside ID; Typer has no option for it.
            setattr(each, "display_type_rich", _no_type)  # noqa: B010 - Typer has no other way
    return params


def _no_type(ctx: Any) -> None:
    del ctx
