"""What a shell completes beside fixed words: names that the settings' database knows.

Owns the look-up. Promises that a key press waits for it about a second at most, and that whatever
goes wrong (no settings, no database, no rights) completes nothing and writes nothing. Known limit:
each look connects anew; a name that rows have and nobody declared is not completed.
*See:* `inboxd/store/names.py`, which reads the names.
"""

import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from inboxd.store.session import Session

# Seconds that a key press may wait.
_WITHIN = 1.0

Completion = Callable[[typer.Context, str], list[str]]

# What is declared under which kinds (`list_names.sql`), and which section of the settings names
# more of it.
_KINDS = {
    "type": ("event type", "command type"),
    "topic": ("topic", "topic of settings"),
}
_SECTIONS = {
    "topic": ("topics",),
    "queue": ("queues",),
    "schedule": ("schedules",),
    "source": ("inbound.webhooks", "inbound.messages"),
    "source of messages": ("inbound.messages",),
}
FAILURE_GROUP = "failure group"


def declared(*kinds: str) -> Completion:
    """Completes names of these kinds: as `list_names.sql` calls them, or `FAILURE_GROUP`."""

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        return _found(context, incomplete, kinds)

    return complete


def plugin_names(incomplete: str) -> list[str]:
    """Completes names of plugins that are installed here; it imports none of them."""
    from importlib.metadata import entry_points

    points = (*entry_points(group="inboxd.handlers"), *entry_points(group="inboxd.migrations"))
    return sorted({each.name for each in points if each.name.startswith(incomplete)})


def of_kind(parameter: str) -> Completion:
    """Completes names of the kind that another argument of the command gives."""

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        return _found(context, incomplete, [str(context.params.get(parameter))])

    return complete


def _found(context: typer.Context, incomplete: str, kinds: Iterable[str]) -> list[str]:
    """The names that begin like this, sorted; none after `_WITHIN`, or if anything goes wrong."""
    config = context.params.get("config") or context.find_root().params.get("config")
    found: set[str] = set()

    def look() -> None:
        with suppress(BaseException):  # a shell's prompt is no place for an error
            found.update(_names(config, kinds))

    # Not by a time-out of the loop: the look-up of a host's name cannot be cancelled.
    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(_WITHIN)
    if thread.is_alive():
        os._exit(0)
    return sorted(name for name in found if name.startswith(incomplete))


def _names(config: Path | None, kinds: Iterable[str]) -> set[str]:
    from inboxd.cli.dev_place import surroundings
    from inboxd.cli.options import ask
    from inboxd.settings import read

    settings = read(config, surroundings(config)).settings
    sections = [section for kind in kinds for section in _SECTIONS.get(kind, ())]
    found = {name for section in sections for name in attrgetter(section)(settings)}
    return found | ask(settings, lambda session: _declared(session, kinds))


async def _declared(session: "Session", kinds: Iterable[str]) -> set[str]:
    from inboxd import operations
    from inboxd.store import names

    if FAILURE_GROUP in kinds:
        groups = await operations.failures(session)
        return {each.fingerprint for each in groups if each.fingerprint is not None}
    known: Any = await names.declared(session.connection, session.sql) or {}
    return {
        name for kind in kinds for each in _KINDS.get(kind, (kind,)) for name in known.get(each, ())
    }
