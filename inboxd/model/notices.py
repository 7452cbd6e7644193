"""Notices: causes of trouble, found in a sample of the waiting rows.

A notice never causes another: events of notices, and their topic, are ignored. A cause that merely
was not counted is not reported as gone. Known limits: a figure may be a lower bound; a cause that
comes and goes between two samples is not seen; webhooks that carry notices are commands.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from inboxd.model.wording import plural

BEGAN, ENDED = "inboxd.notice_began", "inboxd.notice_ended"
_OWN = (BEGAN, ENDED)
# States of rows that no worker could take, or that a worker has.
_NOT_DUE = ("failed", "running", "kept", "unmet")

# Why a notice ends: its cause is gone, or the settings no longer ask for it.
End = Literal["gone", "unwatched"]


class Cause(NamedTuple):
    """A cause. kind: event, command, or empty; subject: a type, topic, queue or breaker."""

    cause: str
    kind: str
    subject: str


class CauseFigures(NamedTuple):
    """The extent of a cause. rows: rows or keys; at_least: the count stopped at its bound."""

    rows: int | None = None
    seconds: float | None = None
    at_least: bool = False


class NoticeRules(NamedTuple):
    """The causes to report; None or False: not reported. most_keys: keys are counted up to it."""

    topic: str
    dead_letters: bool
    blocked_keys: bool
    breakers: bool
    backlog_rows: int | None
    backlog_age: float | None
    most_keys: int

    def watches(self, cause: Cause) -> bool:
        return {
            "dead letters": self.dead_letters,
            "blocked keys": self.blocked_keys,
            "open breaker": self.breakers,
            "backlog": self.backlog_rows is not None,
            "late backlog": self.backlog_age is not None,
        }[cause.cause]


class SeenCauses(NamedTuple):
    """The causes in a sample; `unsure`: whether the cause of an open notice may exist unseen."""

    there: Mapping[Cause, CauseFigures]
    unsure: Callable[[Cause], bool]


def look(rules: NoticeRules, counts: Mapping[str, Any], breakers: Iterable[str]) -> SeenCauses:
    """Find the causes in a sample; counts: of `store/samples.py`, breakers: which hold calls."""
    there: dict[Cause, CauseFigures] = {}
    if rules.dead_letters:
        there |= _dead_letters(rules.topic, counts)
    if rules.blocked_keys:
        there |= _blocked_keys(rules, counts)
    if rules.breakers:
        there |= {Cause("open breaker", "", name): CauseFigures() for name in breakers}
    backlogs, cut_off = _backlogs(rules, counts)

    def unsure(cause: Cause) -> bool:
        of_lanes = cause.cause in ("dead letters", "backlog", "late backlog")
        return rules.watches(cause) and (cause in cut_off or (of_lanes and counts["left_out"] > 0))

    return SeenCauses(there | backlogs, unsure)


def sentence(cause: Cause, figures: CauseFigures, end: End | None = None) -> str:
    what = _what(cause)
    if end == "unwatched":
        return f"{what}: no longer watched"
    if cause.cause == "open breaker":
        return f"{what} {'is open' if end is None else 'lets calls pass again'}"
    if end is not None:
        done = ", or paused" if "backlog" in cause.cause else ""
        return f"{what}: none left{done}"
    least = "at least " if figures.at_least else ""
    word = {"dead letters": "dead letter", "blocked keys": "key"}.get(cause.cause, "row")
    told = f"{what}: {least}{plural(figures.rows or 0, word)}"
    return told if figures.seconds is None else f"{told}, for {figures.seconds:.0f} s"


def _what(cause: Cause) -> str:
    place = "topic" if cause.kind == "event" else "queue"
    return {
        "dead letters": f"Dead letters of {cause.kind} type {cause.subject}",
        "blocked keys": f"Blocked ordering keys in {place} {cause.subject}",
        "open breaker": f"Breaker {cause.subject}",
        "backlog": f"Backlog of {place} {cause.subject}",
        "late backlog": f"Late backlog of {place} {cause.subject}",
    }[cause.cause]


def _dead_letters(topic: str, counts: Mapping[str, Any]) -> dict[Cause, CauseFigures]:
    dead = Counter[Cause]()
    for kind in ("event", "command"):
        for row in counts[f"{kind}s"]:
            own = row["type"] in _OWN or (kind == "event" and row["topic"] == topic)
            if row["state"] == "failed" and not own:
                dead[Cause("dead letters", kind, row["type"])] += row["rows"]
    most = counts["failed_counted_to"]
    return {cause: CauseFigures(rows, at_least=rows >= most) for cause, rows in dead.items()}


def _blocked_keys(rules: NoticeRules, counts: Mapping[str, Any]) -> dict[Cause, CauseFigures]:
    blocked: dict[Cause, CauseFigures] = {}
    for kind, name in (("event", "blocked_lines"), ("command", "blocked_keys")):
        for place, _, keys, seconds in counts[name]:
            if (kind, place) == ("event", rules.topic):
                continue
            cause = Cause("blocked keys", kind, place)
            before = blocked.get(cause, CauseFigures(0, 0.0))
            blocked[cause] = CauseFigures(
                (before.rows or 0) + keys,
                max(before.seconds or 0.0, seconds),
                at_least=before.at_least or keys >= rules.most_keys,
            )
    return blocked


def _backlogs(
    rules: NoticeRules, counts: Mapping[str, Any]
) -> tuple[dict[Cause, CauseFigures], set[Cause]]:
    """The backlogs, and the backlogs whose count stopped at its bound."""
    due, oldest = Counter[tuple[str, str]](), dict[tuple[str, str], float]()
    cut_off: set[tuple[str, str]] = set()
    for kind, place, rows, age in _due_lanes(counts):
        if (kind, place) == ("event", rules.topic):
            continue
        due[kind, place] += rows
        oldest[kind, place] = max(age, oldest.get((kind, place), 0.0))
        if rows >= counts["counted_to"]:
            cut_off.add((kind, place))
    there: dict[Cause, CauseFigures] = {}
    for lane, rows in due.items():
        figures = CauseFigures(rows, oldest[lane], at_least=lane in cut_off)
        if rules.backlog_rows is not None and rows >= rules.backlog_rows:
            there[Cause("backlog", *lane)] = figures
        if rules.backlog_age is not None and oldest[lane] >= rules.backlog_age:
            there[Cause("late backlog", *lane)] = figures
    return there, {Cause("backlog", *lane) for lane in cut_off}


def _due_lanes(counts: Mapping[str, Any]) -> Iterator[tuple[str, str, int, float]]:
    """Due rows by lane: kind, topic or queue, rows, age of the oldest in seconds."""
    for kind, place in (("event", "topic"), ("command", "queue")):
        for row in counts[f"{kind}s"]:
            if row["state"] not in _NOT_DUE and not row["paused"]:
                yield kind, row[place], row["due"] or 0, row["oldest"] or 0.0
    for row in counts["lines"]:  # some of these rows are possibly not due: only their age counts
        yield "event", row["topic"], 0, row["late"] or 0.0
