"""The title and the description of each declared type, also of a type with several handlers.

All workers of a release agree: the handlers of a type are ordered by plugin, topic and name; the
title is that of the first handler with a title, the description that of the first handler with a
description.
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
