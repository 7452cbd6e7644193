"""The title and description of each declared type: one, also if it has several handlers.

Owns the choice. Promises: it is the same in each worker of one release, for any order in which
plugins were loaded: among a type's handlers, ordered by plugin, topic and name, the first with a
title gives the title, and the first with a description the description. Known limit: if workers
differ, the worker that joined last counts.
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
