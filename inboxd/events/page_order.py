"""Decides which lines of a page stand still, and which of their events are lined up.

After an event of a line that cannot be settled now, no later event of that line runs (promise 5).
Every row that was reached has a position when the page commits, or has ended. Known limit: a line's
rows must come in order. *See:* `page_run`, before it; `settling`, after it.
"""

from dataclasses import dataclass, field

from inboxd.engine.parts import Parts
from inboxd.store.rows import ClaimedEvent


@dataclass(slots=True)
class PageOrder:
    """One page's lines. lined_up: arrivals to line up; leaving: dead letters that leave (ids)."""

    parts: Parts
    lined_up: list[int] = field(default_factory=list)
    leaving: list[int] = field(default_factory=list)
    lines: set[tuple[str, str | None]] = field(default_factory=set)
    # Whether a topic and type are served, by the first look-up; a change of the controls ends the
    # page.
    _serves: dict[tuple[str, str], bool] = field(default_factory=dict)

    def may_run(self, row: ClaimedEvent) -> bool:
        """Whether the event may run; if not, its line stands still."""
        if self.can_run(row) and may_probe(self.parts, row):
            return True
        self.stop(row)
        return False

    def can_run(self, row: ClaimedEvent) -> bool:
        """Whether its line and type allow the event to run; nothing is noted."""
        stands = row["behind"] or not row["ready"]
        if self.lines and not stands:
            stands = (row["topic"], row["ordering_key"]) in self.lines
        return not stands and self._is_served(row["topic"], row["type"])

    def _is_served(self, topic: str, type_: str) -> bool:
        found = self._serves.get((topic, type_))
        if found is None:
            found = self._serves[topic, type_] = serves(self.parts, topic, type_)
        return found

    def requeue(self, row: ClaimedEvent, *, dead: bool) -> None:
        """Note that the event failed: its line stands still, or continues behind a dead letter."""
        topic = self.parts.registry.topics.get(row["topic"])
        if dead and topic is not None and topic.on_failure == "skip":
            if row["position"] is not None:
                self.leaving.append(row["id"])
        else:
            self.stop(row)

    def stop(self, row: ClaimedEvent) -> None:
        """Let the line stand still; a new arrival needs a position."""
        self.lines.add((row["topic"], row["ordering_key"]))
        if row["position"] is None:
            self.lined_up.append(row["id"])


def may_probe(parts: Parts, row: ClaimedEvent) -> bool:
    """Whether the event may run; if its breaker is probed, it becomes a probe."""
    breakers = parts.breakers
    return not breakers.probing or breakers.admit("topic", row["topic"], row["type"], row["id"])


def serves(parts: Parts, topic: str, type_: str) -> bool:
    return bool(parts.registry.handlers_of(topic, type_)) and parts.controls.allow(
        "topic", topic, type_
    )
