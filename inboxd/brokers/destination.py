"""Fills in the `to` of a relay; an event with a missing or empty value becomes a dead letter."""

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
_FEW = frozenset({"type", "version"})  # columns with few distinct values
_MOST_REMEMBERED = 1000


class Destination:
    def __init__(self, template: str, pattern: str, names: Sequence[str]) -> None:
        """pattern: the template with `%s` in place of each name in `names`."""
        self._template = template
        self._pattern = pattern
        self._names = names
        self._remembers = _FEW.issuperset(names)
        self._remembered: dict[tuple[object, object], str] = {}

    def of(self, event: Mapping[str, object]) -> str:
        """event: the event's columns. Raises MessageRefused."""
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
    pattern = PLACEHOLDER.sub("%s", template.replace("%", "%%"))
    return Destination(template, pattern, PLACEHOLDER.findall(template))
