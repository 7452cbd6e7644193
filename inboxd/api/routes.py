"""The destination of a handler's command or event: by its payload's class, or its type's name.

Owns the lookups, and the refusals of a context whose handler has ended. Promises: a class that is
the payload of several types, or of none, is refused with a remedy.
Known limit: a type that only other plugins handle is known here by its class, or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, NoReturn, Protocol

from inboxd.errors import UsageError
from inboxd.model.naming import command_of, event_of


class Route(NamedTuple):
    """The defaults of a command; queue None: the declared queue."""

    type: str
    queue: str | None = None
    schema_version: int = 1
    priority: int = 0


# Takes a payload's class, or a type's name; raises UsageError for a class without a command.
Resolve = Callable[[type[object] | str], Route]


class EventRoute(NamedTuple):
    """The defaults of an event: its type and version."""

    type: str
    schema_version: int = 1


class Routes(Protocol):
    """The lookups of a context."""

    def resolve(self, payload: type[object] | str, /) -> Route:
        """The defaults of a command. Raises UsageError unless the class has exactly one command."""

    def resolve_event(self, payload: type[object] | str, /) -> EventRoute:
        """The defaults of an event. Raises UsageError unless the class has exactly one type."""


def ended(*_: object) -> NoReturn:
    """Refuse the call of a handler that has ended. Raises UsageError."""
    raise UsageError(
        "The handler has ended: await the tasks that it starts, so that none outlives it."
    )


class EndedRoutes:
    """The routes of a context whose handler has ended."""

    resolve = resolve_event = staticmethod(ended)


ENDED = EndedRoutes()


def command_route(payload: type[object], handled: Iterable[str]) -> Route:
    """The defaults of a command by its class; `handled`: types whose handlers take the class."""
    types = tuple(handled)
    name = payload.__qualname__
    if types:
        raise UsageError(f"{name} is the payload of {', '.join(types)}: choose one with type=.")
    named = command_of(payload)
    if named is not None:
        return Route(named.type, schema_version=named.schema_version)
    hint = "; it is an event's: ctx.emit" if event_of(payload) is not None else ""
    raise UsageError(
        f"No command handler takes {name}: declare one, or name the type, type=…{hint}."
    )


def event_route(payload: type[object], handled: Iterable[EventRoute]) -> EventRoute:
    """The defaults of an event by its class; `handled`: of the handlers that take the class."""
    named = event_of(payload)
    if named is not None:
        return EventRoute(*named)
    routes = {route.type: route for route in handled}
    if len(routes) == 1:
        return next(iter(routes.values()))
    name = payload.__qualname__
    if routes:
        raise UsageError(
            f"{name} is the payload of {', '.join(sorted(routes))}: give the type that you mean "
            f'first, ctx.emit("{min(routes)}", …), or give the class its inboxd_event.'
        )
    raise UsageError(
        f'No event type is known for {name}: name it first, ctx.emit("…", …), give the class '
        "its inboxd_event, or declare a handler of events that takes it."
    )
