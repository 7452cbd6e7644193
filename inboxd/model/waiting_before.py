"""Causes from rows that come before a row: in its ordering key, its lane, or by priority.

One step is explained: the row before has its own causes, found by its own `why`.
"""

from collections.abc import Iterator
from typing import Any, Final

from inboxd.model.lifecycle import Status
from inboxd.model.waiting import Facts, WaitingCause
from inboxd.model.waiting_facts import is_later, named, row_of

# Counting stops here.
COUNTED: Final = 100


def behind(kind: str, holder: Facts, facts: Facts) -> WaitingCause:
    known: dict[str, Any] = {"row": row_of(kind, holder)}
    if holder["status"] == Status.FAILED:
        return WaitingCause("behind", "behind", known)
    if holder["status"] == Status.RUNNING:
        return WaitingCause("behind", "behind, running", known)
    if found := stuck(kind, holder, facts):
        return found
    if is_later(holder["run_at"], facts):
        return WaitingCause("behind", "behind, later", known | {"at": holder["run_at"]})
    if holder["crashes"]:
        return WaitingCause("behind", "behind, apart", known)
    return WaitingCause("behind", "behind, next", known)


def stuck(kind: str, before: Facts, facts: Facts) -> WaitingCause | None:
    """None: no such cause, or both rows have the same type, and so the same cause."""
    if before["alike"]:
        return None
    known: dict[str, Any] = {"row": row_of(kind, before)}
    type_ = {"kind": f"{kind} type", "name": before["type"]}
    if paused := before["paused"]:
        known |= {"type": type_, "actor": paused["actor"], "at": paused["at"]}
        return WaitingCause("behind", "behind, paused", known, paused["reason"])
    if kind == "event" and before["unhandled"]:
        return WaitingCause("behind", "behind, kept", known)
    if kind == "command" and facts["living"] and not before["serving"]:
        return WaitingCause("behind", "behind, unserved", known | {"type": type_})
    if before["breaker"]:
        known |= {"breaker": named("breaker", before["breaker"])}
        return WaitingCause("behind", "behind, breaker", known)
    return None


def turn_of(turn: Facts | None) -> Iterator[WaitingCause]:
    """The rows that claims take before a command without other causes, from `explain_turn.sql`."""
    if turn is None or not turn["rows"]:
        return
    known = {"rows": turn["rows"], "queue": named("queue", turn["queue"])}
    yield WaitingCause("first", "first, many" if turn["rows"] >= COUNTED else "first", known)


def next_of(kind: str, facts: Facts) -> WaitingCause:
    ahead = facts["ahead"]
    first = facts["first"] if kind == "command" else None
    in_bucket = kind == "event" and facts["status"] == "waiting" and facts["position"] is None
    if not ahead and not first:
        if in_bucket:
            return WaitingCause("next", "next in bucket")
        in_line = facts["status"] == "waiting"
        return WaitingCause("next", "next in line" if in_line else "next")
    known: dict[str, Any] = {"ahead": f"{ahead} or more" if ahead >= COUNTED else max(ahead, 1)}
    if first:
        return WaitingCause("next", "ahead in line", known | {"row": row_of(kind, first)})
    return WaitingCause("next", "ahead in bucket" if in_bucket else "ahead", known)
