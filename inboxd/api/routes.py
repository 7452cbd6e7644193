"""Where what a handler sends goes: by its payload's class, or by its type's name.

Owns the answers, and what a context asks after its handler has ended. Promises: a class that is the
payload of several types, or of none, is refused with what to do about it.
Known limit: what only other plugins handle is known here by its class' own word, or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, NoReturn, Protocol

from inboxd.errors import UsageError
from inboxd.model.naming import command_of, event_of


class Route(NamedTuple):
    """Where a command goes by default; queue None: the declared one."""

    type: str
    queue: str | None = None
    schema_version: int = 1
    priority: int = 0


# From a payload's class, or a type's name; raises UsageError for a class that no command takes.
Resolve = Callable[[type[object] | str], Route]


class EventRoute(NamedTuple):
    """What an event is by default: its type and version."""

    type: str
    schema_version: int = 1


class Routes(Protocol):
    """What a context asks."""

    def resolve(self, payload: type[object] | str, /) -> Route:
        """Where a command goes. Raises UsageError for a class that names no one command."""

    def resolve_event(self, payload: type[object] | str, /) -> EventRoute:
        """What an event is. Raises UsageError for a class that names no one event."""


def ended(*_: object) -> NoReturn:
    """Refuse what a handler does after its end. Raises UsageError."""
    raise UsageError("The handler has ended: await what it starts, so that nothing outlives it.")


class EndedRoutes:
    """The routes of a context whose handler has ended."""

    resolve = resolve_event = staticmethod(ended)


ENDED = EndedRoutes()


def command_route(payload: type[object], handled: Iterable[str]) -> Route:
    """Where a command of a class goes that the handlers of `handled` take, none or several."""
    types = tuple(handled)
    name = payload.__qualname__
    if types:
        raise UsageError(f"{name} is the payload of {', '.join(types)}: say which with type=.")
    named = command_of(payload)
    if named is not None:
        return Route(named.type, schema_version=named.schema_version)
    hint = "; it is an event's: ctx.emit" if event_of(payload) is not None else ""
    raise UsageError(
        f"No command handler takes {name}: declare one, or name the type, type=…{hint}."
    )


def event_route(payload: type[object], handled: Iterable[EventRoute]) -> EventRoute:
    """What an event of a class is; `handled`: what the handlers that take the class make of it."""
    named = event_of(payload)
    if named is not None:
        return EventRoute(*named)
    routes = {route.type: route for route in handled}
    if len(routes) == 1:
        return next(iter(routes.values()))
    name = payload.__qualname__
    if routes:
        raise UsageError(
            f"{name} is the payload of {', '.join(sorted(routes))}: name the one that is meant "
            f'first, ctx.emit("{min(routes)}", …), or give the class its inboxd_event.'
        )
    raise UsageError(
        f'No event type is known for {name}: name it first, ctx.emit("…", …), give the class '
        "its inboxd_event, or declare a handler of events that takes it."
    )
