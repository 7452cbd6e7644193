"""Where the message of an event goes: the `to` of a relay, filled in.

Owns which placeholder stands for which column. Promises that what an event lacks, or has empty, is
refused for good, so that it never goes to a place of another name.
*See:* `inboxd/settings/references.py`, which checks the template.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from inboxd.errors import MessageRefused
from inboxd.settings.references import PLACEHOLDER

_COLUMNS = {
    "type": "type",
    "version": "schema_version",
    "tenant": "tenant",
    "entity_type": "entity_type",
    "entity_id": "entity_id",
}
_FEW = frozenset({"type", "version"})  # of which there are few values
_MOST_REMEMBERED = 1000


class Destination:
    """A template, compiled."""

    def __init__(self, template: str, pattern: str, names: Sequence[str]) -> None:
        """`pattern` has `%s` in place of each of the names."""
        self._template = template
        self._pattern = pattern
        self._names = names
        self._remembers = _FEW.issuperset(names)
        self._remembered: dict[tuple[object, object], str] = {}

    def of(self, event: Mapping[str, object]) -> str:
        """That of an event, of its columns. Raises MessageRefused."""
        if not self._remembers:
            return self._filled(event)
        key = (event["type"], event["schema_version"])
        found = self._remembered.get(key)
        if found is None:
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered.clear()
            found = self._remembered[key] = self._filled(event)
        return found

    def _filled(self, event: Mapping[str, object]) -> str:
        values = tuple(event[_COLUMNS[name]] for name in self._names)
        for name, value in zip(self._names, values, strict=True):
            if value is None or value == "":
                raise MessageRefused(
                    f"the event has no {name}, which its destination {self._template!r} needs: "
                    "give it one, or change `to` in [relays].",
                    for_good=True,
                )
        return self._pattern % values


def compile_destination(template: str) -> Destination:
    """The destination of a template that the settings have checked."""
    pattern = PLACEHOLDER.sub("%s", template.replace("%", "%%"))
    return Destination(template, pattern, PLACEHOLDER.findall(template))
