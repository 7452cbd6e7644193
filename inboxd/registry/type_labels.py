"""The title and description of each declared type: one, also if it has several handlers.

Each worker of a release has the same: among a type's handlers, ordered by plugin, topic and name,
the first with a title gives it, and the first with a description that.
"""

from collections.abc import Iterable

from inboxd.api.records import EventHandler, Handler
from inboxd.registry.registry import Registry

Label = tuple[str | None, str | None]  # title, description


def type_labels(registry: Registry) -> dict[tuple[str, str], Label]:
    """Title and description of all types, by kind and type; None: no handler gives one."""
    return {
        **{("event", type_): _first(found) for type_, found in registry.events.items()},
        **{("command", type_): _first([found]) for type_, found in registry.commands.items()},
    }


def _first(handlers: Iterable[Handler]) -> Label:
    found = sorted(handlers, key=_order)
    return (
        next((each.title for each in found if each.title is not None), None),
        next((each.description for each in found if each.description is not None), None),
    )


def _order(handler: Handler) -> tuple[str, str, str]:
    topic = handler.topic if isinstance(handler, EventHandler) else None
    return handler.plugin, topic or "", handler.name
