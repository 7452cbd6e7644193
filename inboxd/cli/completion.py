"""Shell completion of names that the settings and their database have.

A key press waits at most about one second, and any failure completes nothing and prints nothing.
Known limit: undeclared names are not completed, even if rows have them.
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

_WAIT_SECONDS = 1.0

Completion = Callable[[typer.Context, str], list[str]]

# For each kind: the kinds of `list_names.sql` with its names, and the sections of the settings with
# further names.
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
    """Complete names of these kinds: the kinds of `list_names.sql`, or `FAILURE_GROUP`."""

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        return _found(context, incomplete, kinds)

    return complete


def plugin_names(incomplete: str) -> list[str]:
    """Complete names of installed plugins, without importing them."""
    from importlib.metadata import entry_points

    points = (*entry_points(group="inboxd.handlers"), *entry_points(group="inboxd.migrations"))
    return sorted({each.name for each in points if each.name.startswith(incomplete)})


def of_kind(parameter: str) -> Completion:
    def complete(context: typer.Context, incomplete: str) -> list[str]:
        return _found(context, incomplete, [str(context.params.get(parameter))])

    return complete


def _found(context: typer.Context, incomplete: str, kinds: Iterable[str]) -> list[str]:
    """Return the matching names, sorted; none after `_WAIT_SECONDS` or at any error."""
    config = context.params.get("config") or context.find_root().params.get("config")
    found: set[str] = set()

    def look() -> None:
        with suppress(BaseException):  # an error would garble the shell's prompt
            found.update(_names(config, kinds))

    # A thread, because a loop's time-out cannot cancel the look-up of a host name.
    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(_WAIT_SECONDS)
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
    return found | ask(settings, config, lambda session: _declared(session, kinds))


async def _declared(session: "Session", kinds: Iterable[str]) -> set[str]:
    from inboxd import operations
    from inboxd.store import names

    if FAILURE_GROUP in kinds:
        groups = await operations.failures(session)
        return {each.fingerprint for each in groups if each.fingerprint is not None}
    known: Any = await names.declared(session) or {}
    return {
        name for kind in kinds for each in _KINDS.get(kind, (kind,)) for name in known.get(each, ())
    }
