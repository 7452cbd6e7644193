"""Routes of commands and events for a context, as a test chooses: `Routed(resolve)`."""

from collections.abc import Callable
from dataclasses import dataclass

from inboxd.api.routes import EventRoute, Route, event_route


def by_class(what: type[object] | str) -> EventRoute:
    """The route of an event type, given as its name or its class."""
    return EventRoute(what) if isinstance(what, str) else event_route(what, ())


@dataclass(frozen=True)
class Routed:
    """The routes of commands, and of events."""

    resolve: Callable[[type[object] | str], Route]
    resolve_event: Callable[[type[object] | str], EventRoute] = by_class
