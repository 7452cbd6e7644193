"""Whether a payload is what the handlers expect that are installed here.

Promises: a refusal names the handler and the field, and never the value; what nobody here handles
is not judged, nor is what was written for a newer release of a handler. A plugin that cannot be
loaded is left out, and hides no other.
Known limit: workers elsewhere may run another release of a plugin than this environment has.
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
    """What payloads have to be, by type."""

    def __init__(self, registries: Sequence[Registry]) -> None:
        """Take the handlers of all of these."""
        self._registries = registries

    def handlers(self, kind: Kind, type_: str, topic: str | None = None) -> list[Handler]:
        """Who reads a payload of this type here; topic: of events, where they are to go."""
        return [each for registry in self._registries for each in _of(registry, kind, type_, topic)]

    def refusal(
        self, kind: Kind, type_: str, topic: str | None, version: int, payload: str
    ) -> str | None:
        """Which handler would not take the payload, and why; None: all that are here would."""
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
        if not (isinstance(each, EventHandler) and each.relay):  # as it is, it is published
            yield each


def models_here(settings: Settings) -> PayloadModels:
    """Those of the plugins that a worker with these settings would load in this environment."""
    try:
        return PayloadModels([load_registry(settings)])
    except InboxdError:  # `inboxd check` says what is wrong: here what can be judged is judged
        found = installed(settings)
        return PayloadModels([each.registry for each in found if each.taken and each.registry])
