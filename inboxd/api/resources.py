"""Resources: opened by a plugin in each worker process, and taken by its functions by type.

A lifespan (`@handlers.lifespan`) is a generator function that yields one value; its annotation
gives the value's type. Handlers, middleware, hooks and later lifespans of the same plugin get the
value by a further parameter of that type. This module reads and checks the declarations;
`inboxd.engine.resources` opens, passes and closes the resources; `inboxd.testing` uses a test's own
resources.

Promises that a parameter without a lifespan is refused at start, by name; and that a function
without resources is called directly. Known limit: types are compared as they are written, so a
lifespan that yields a subclass does not provide its base class.
"""

from __future__ import annotations

import inspect
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from types import MappingProxyType, NoneType
from typing import Any, Protocol, get_args, get_origin

from inboxd.api.functions import full_name, hints_of, name_of, place_of_function, shown, where
from inboxd.errors import UsageError
from inboxd.model import duration
from inboxd.model.duration import Duration

# The types of the resources that a function takes, by the names of its parameters.
Needs = Mapping[str, Any]
NO_NEEDS: Needs = MappingProxyType({})

# How long a lifespan may take until it yields, by default.
OPENING: Duration = "30s"

_ASYNC = (AsyncIterator, AsyncGenerator, AsyncIterable)
_SYNC = (Iterator, Generator, Iterable)
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Dependent(Protocol):
    """A function of a plugin, and the resources of that plugin that it takes."""

    @property
    def plugin(self) -> str:
        """The plugin's name."""

    @property
    def func(self) -> Callable[..., Any]:
        """The function as it was declared."""

    @property
    def needs(self) -> Needs:
        """The resources that it takes, besides its own arguments."""


@dataclass(frozen=True, slots=True)
class LifespanDeclaration:
    """One use of `@handlers.lifespan`, as written."""

    func: Callable[..., Any]
    timeout: Duration = OPENING


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifespan:
    """A checked lifespan; `timeout` is in seconds. threaded: it is a sync generator function."""

    plugin: str
    name: str
    place: str
    func: Callable[..., Any]
    yields: Any
    timeout: float
    needs: Needs
    threaded: bool


def check_lifespans(
    plugin: str, declared: Sequence[LifespanDeclaration]
) -> tuple[tuple[Lifespan, ...], list[str]]:
    """The lifespans of a plugin in their order, and their problems."""
    found: list[Lifespan] = []
    problems: list[str] = []
    for each in declared:
        try:
            found.append(_checked(plugin, each, found))
        except UsageError as error:
            problems.append(f"{where(each.func)}: {error}")
    return tuple(found), problems


def needs_of(
    func: Callable[..., Any],
    hints: Mapping[str, Any],
    offered: Sequence[Lifespan] | None,
    *,
    after: int,
) -> Needs:
    """The resources that a function takes, after its first `after` parameters.

    offered: the known lifespans; None: they are invalid themselves. Raises UsageError for a
    parameter that no lifespan provides.
    """
    parameters = list(inspect.signature(func).parameters.values())[after:]
    if not parameters:
        return NO_NEEDS
    for each in parameters:
        if each.kind not in _BY_NAME:
            raise UsageError(f"its parameter {str(each)!r}: a resource is given by its name.")
        if each.name not in hints:
            raise UsageError(f"parameter {each.name!r} has no annotation: give it one.")
        if offered is not None and not any(hints[each.name] == one.yields for one in offered):
            raise UsageError(_nothing_yields(each.name, hints[each.name], offered))
    return {each.name: hints[each.name] for each in parameters}


def taken(lifespans: Sequence[Lifespan], dependents: Iterable[Dependent]) -> list[Lifespan]:
    """The lifespans that these functions need, with the lifespans needed by these; in order."""
    wanted = [(each.plugin, type_) for each in dependents for type_ in each.needs.values()]
    found: list[Lifespan] = []
    for each in reversed(lifespans):  # a lifespan needs earlier ones only
        if (each.plugin, each.yields) in wanted:
            found.insert(0, each)
            wanted += [(each.plugin, type_) for type_ in each.needs.values()]
    return found


def _nothing_yields(name: str, hint: Any, offered: Sequence[Lifespan]) -> str:
    there = ", ".join(f"{each.name} ({full_name(each.yields)})" for each in offered)
    known = f"the lifespans before it are {there}" if there else "there are none before it"
    return (
        f"its parameter {name!r} is a {full_name(hint)}, and no lifespan of this plugin yields "
        f"that: {known}. Declare one (@handlers.lifespan), or drop the parameter."
    )


def _checked(plugin: str, declared: LifespanDeclaration, before: Sequence[Lifespan]) -> Lifespan:
    func = declared.func
    is_async = inspect.isasyncgenfunction(func)
    if not is_async and not inspect.isgeneratorfunction(func):
        raise UsageError(
            "a lifespan is a generator function: open, `yield` the resource once, close; without "
            "@asynccontextmanager, which inboxd adds."
        )
    hints = hints_of(func)
    yields = _yielded(hints.get("return"), is_async=is_async)
    for each in before:
        if each.yields == yields and yields is not NoneType:
            raise UsageError(
                f"it yields a {full_name(yields)}, as {each.name} does: distinguish the two by "
                'their types, Annotated[…, "name"] or a class of your own.'
            )
    timeout = duration.seconds(declared.timeout)
    if not timeout:
        raise UsageError("timeout=0s: give it the time that it needs to open.")
    return Lifespan(
        plugin=plugin,
        name=name_of(func),
        place=place_of_function(func),
        func=func,
        yields=yields,
        timeout=timeout,
        needs=needs_of(func, hints, before, after=0),
        threaded=not is_async,
    )


def _yielded(hint: Any, *, is_async: bool) -> Any:
    if get_origin(hint) not in (_ASYNC if is_async else _SYNC) or not get_args(hint):
        wanted = "AsyncIterator" if is_async else "Iterator"
        said = "says nothing of it" if hint is None else f"is {shown(hint)}"
        raise UsageError(
            f"the type of its resource is read from its annotation, which {said}: "
            f"write -> {wanted}[TheType]."
        )
    yields = get_args(hint)[0]
    return NoneType if yields is None else yields
