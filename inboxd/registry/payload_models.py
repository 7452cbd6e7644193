"""Validation of payloads by the handlers that are installed here.

A refusal names the handler and the field, never the value. Unchecked: a payload without a handler
here, for a newer release, or of a plugin that cannot be loaded. Workers elsewhere may differ.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from inboxd.api.payload import decode
from inboxd.api.records import CommandHandler, EventHandler, Handler
from inboxd.errors import InboxdError, PayloadError, TooNew
from inboxd.registry.installed import installed
from inboxd.registry.plugins import load_registry
from inboxd.registry.registry import Registry
from inboxd.settings import Settings

Kind = Literal["event", "command"]


class PayloadModels:
    def __init__(self, registries: Sequence[Registry]) -> None:
        self._registries = registries

    def handlers(self, kind: Kind, type_: str, topic: str | None = None) -> list[Handler]:
        """The handlers here of a payload's type; topic: the destination of an event."""
        return [each for registry in self._registries for each in _of(registry, kind, type_, topic)]

    def refusal(
        self, kind: Kind, type_: str, topic: str | None, version: int, payload: str
    ) -> str | None:
        """The handler that refuses the payload, and why; None: all handlers here accept it."""
        for handler in self.handlers(kind, type_, topic):
            try:
                decode(handler, payload, version)
            except TooNew:
                continue
            except PayloadError as error:
                return f"{handler.name} does not take it: {error}"
        return None


def _of(registry: Registry, kind: Kind, type_: str, topic: str | None) -> Iterator[Handler]:
    found: Sequence[EventHandler | CommandHandler]
    if kind == "command":
        found = [each for each in (registry.commands.get(type_),) if each is not None]
    elif topic is None:
        found = registry.events.get(type_, ())
    else:
        found = registry.handlers_of(topic, type_)
    for each in found:
        # a relay publishes the payload unchanged
        if not (isinstance(each, EventHandler) and each.relay):
            yield each


def models_here(settings: Settings) -> PayloadModels:
    try:
        return PayloadModels([load_registry(settings)])
    except InboxdError:  # `inboxd check` reports the problem: here the valid plugins are used
        found = installed(settings)
        return PayloadModels([each.registry for each in found if each.taken and each.registry])
