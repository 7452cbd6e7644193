"""Causes that keep an unsettled row from running, and their sentences.

The command line, the API and the screens share them. Facts about other rows can be left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from string import Formatter
from typing import Any, Final

Facts = Mapping[str, Any]

# The text of each cause; a cause with several texts has a key for each. Placeholders are facts.
TEXTS: Final[Mapping[str, str]] = {
    "running": "It runs now: on worker {worker}, since {at}",
    "ending": "It runs now, on worker {worker}, and was asked to end",
    "lost": "Its worker {worker} has sent no heartbeat for {silence}: another worker takes it "
    "back at {at}",
    "lost, due": "Its worker {worker} has sent no heartbeat for {silence}: another worker is "
    "about to take it back",
    "lost, alone": "Its worker {worker} has sent no heartbeat for {silence}, and no other worker "
    "is running to take it back",
    "gone": "Its worker {worker} is gone, and no other worker takes back its commands",
    "dead": "It is a dead letter (attempts: {attempts}): replay it to run it again",
    "dead, rival": "It is a dead letter, and cannot be replayed: {row} has its unique key",
    "dead, cancelled": "It is a dead letter, and cannot be replayed: {row} was cancelled",
    "batch": "It waits for {row}: {left} of {size} members are left",
    "batch, dead": "It waits for {row}: {left} of {size} members are left, including dead "
    "letters: {failed}",
    "batch, open": "It waits for {row}, which is still open: {left} of {size} members are left",
    "row": "It waits for {row}, which is {status}",
    "others": "Other rows that it waits for: {more}",
    "others, many": "Other rows that it waits for: at least {more}",
    "released": "The rows that it waited for have ended, and it is about to be released",
    "paused queue": "Its queue {queue} is paused: by {actor}, since {at}",
    "paused topic": "Its topic {topic} is paused: by {actor}, since {at}",
    "paused type": "Its type {type} is paused: by {actor}, since {at}",
    "paused reader": "Its chunk is run with {type}, which is paused: by {actor}, since {at}",
    "disabled": "Its endpoint {endpoint} is disabled: by {actor}, since {at}",
    "unpartitioned": "History has no partition for today: no worker takes rows until it has one",
    "nobody": "No worker is running",
    "unserved": "No running worker has a handler for {type} in the queue {queue}",
    "kept": "No living worker has a handler for {type} in the topic {topic}: it waits for such a "
    "worker",
    "breaker": "It needs the breaker {breaker}, which is open until {at}; then a worker probes it",
    "breaker, due": "It needs the breaker {breaker}, whose break is over: a worker is about to "
    "probe it",
    "breaker, tried": "It needs the breaker {breaker}, which worker {worker} is probing",
    "breaker, forced": "It needs the breaker {breaker}, which {actor} has forced open",
    "intake": "Its topic {topic} takes in events that waited elsewhere, since {at}",
    "behind": "Its ordering key is held by {row}, a dead letter: replay or dismiss it",
    "behind, kept": "Its ordering key is held by {row}, which no living worker handles",
    "behind, paused": "It comes after {row} of its ordering key, whose type {type} is paused: "
    "by {actor}, since {at}",
    "behind, unserved": "It comes after {row} of its ordering key, and no running worker has a "
    "handler for {type}",
    "behind, breaker": "It comes after {row} of its ordering key, which needs the open breaker "
    "{breaker}",
    "behind, apart": "It comes after {row} of its ordering key, which ran on a worker that died",
    "behind, running": "It comes after {row} of its ordering key, which runs now",
    "behind, later": "It comes after {row} of its ordering key, which is due at {at}",
    "behind, next": "It comes after {row} of its ordering key, which is due",
    "key": "Its ordering key is at its limit: {running} of {most} run",
    "chunk": "Its chunk is due at {at}, and has {size} events",
    "chunk, or full": "Its chunk has {size} of {full} events, and is due at {at} at the latest",
    "chunk, full": "Its chunk has {size} of {full} events, and waits for more",
    "chunk, types": "Its chunk has {size} events, and waits for {missing}, until {at} at the "
    "latest",
    "chunk, types only": "Its chunk has {size} events, and waits for {missing}",
    "due": "It is due at {at}",
    "expires": "It is cancelled at {at}, unless it starts before",
    "again": "It is due at {at}, for attempt {attempt} of {attempts}",
    "apart": "Its worker died {crashes} times while it ran: no worker runs it before {at}",
    "suspect": "It ran on a worker that died: it runs with {others} others of its group",
    "alone": "It ran on workers that died: it runs alone, on a worker that runs nothing else",
    "total": "Its queue {queue} is at its limit: {running} of {most} run",
    "rate": "Its queue {queue} is at its rate limit: {claimed} of {most} in {period}, more at {at}",
    "full": "Its topic {topic} is at its limit: {running} of {most} pages run",
    "exclusive": "All workers that serve it ({workers}) run a suspect alone, or prepare to: a "
    "suspect is a command that ran when its worker died",
    "busy": "All workers that serve it ({workers}) run their maximum number of commands",
    "producer": "A producer that began earlier may still commit ({writers} in its bucket)",
    "unseen": "A producer may have begun earlier, and may still commit ({writers} in its bucket; "
    "only members of pg_read_all_stats see when it began)",
    "leased": "Worker {worker} is publishing events of this row's bucket",
    "visited": "A worker is processing events of this row's bucket",
    "ahead": "Nothing holds it: {ahead} before it in its lane",
    "ahead in line": "Nothing holds its ordering key: {ahead} before it, the first is {row}",
    "ahead in bucket": "Nothing holds it: {ahead} before it in its bucket",
    "first": "Claims take other rows first, if these may run: {rows}, beginning with queue {queue}",
    "first, many": "Claims take other rows first, if these may run: at least {rows}, beginning "
    "with queue {queue}",
    "next": "Nothing holds it: it is the next of its lane, or is being claimed",
    "next in line": "Nothing holds it: it is the next of its ordering key, or is being claimed",
    "next in bucket": "Nothing holds it: it is the next of its bucket, or is being claimed",
}
# The texts for readers who must not see facts about other rows, by cause.
BRIEF: Final[Mapping[str, str]] = {
    "running": "It runs now",
    "waits": "It waits for other rows",
    "paused": "It is paused",
    "disabled": "Its endpoint is disabled",
    "breaker": "The service that it needs is down",
    "behind": "Other rows of its ordering key come first",
    "limit": "The number of running rows is at its limit",
    "suspect": "It ran on a worker that died, and is set apart",
    "next": "Nothing holds it",
    "first": "Other rows are claimed first",
    "intake": "Its topic takes in events that waited elsewhere",
    "producer": "A producer that began earlier may still commit",
    "dead": "It is a dead letter",
    "unserved": "No running worker has a handler for it",
    "chunk": "Its chunk is not due",
}
# Such texts by the key of a full text, where the text of its cause would be wrong.
BRIEF_OF: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("lost", "lost, due", "lost, alone"), "Its worker has sent no heartbeat for a while"
    ),
    "gone": "Its worker is gone",
    **dict.fromkeys(("leased", "visited"), "A worker is working on its bucket"),
    "chunk, full": "Its chunk waits for other events",
    "chunk, types only": "Its chunk waits for other events",
    "exclusive": "All workers that serve it are busy",
}
# Causes whose facts are all about the row itself.
OWN: Final = frozenset({"due", "expires", "nobody", "partition"})
_SAID: Final = {text: said for said, text in TEXTS.items()}


@dataclass(frozen=True, slots=True)
class WaitingCause:
    """said: the key of its text. A fact that can be linked has `kind`, and `id` or `name`."""

    name: str
    said: str
    facts: Facts = field(default_factory=dict)
    note: str | None = None

    def document(self) -> dict[str, Any]:
        return {
            "cause": self.name,
            "text": TEXTS[self.said],
            "facts": dict(self.facts),
            "reason": self.note,
        }


def sentence(causes: Sequence[Mapping[str, Any]]) -> str:
    return " And then: ".join(f"{told(each)}." for each in causes)


def told(cause: Mapping[str, Any]) -> str:
    parts = [
        literal + ("" if name is None else _plain(cause["facts"][name]))
        for literal, name, _, _ in Formatter().parse(cause["text"])
    ]
    return "".join(parts) + (f" ({cause['reason']})" if cause["reason"] else "")


def brief(why: Mapping[str, Any]) -> dict[str, Any]:
    """The causes without any facts about other rows, not even counts, for restricted readers."""
    causes: list[Mapping[str, Any]] = []
    for each in map(_brief, why["causes"]):
        if each not in causes:
            causes.append(each)
    return {"sentence": sentence(causes), "causes": causes}


def _brief(cause: Mapping[str, Any]) -> Mapping[str, Any]:
    name = cause["cause"]
    if name in OWN:
        return cause
    text = BRIEF_OF.get(_SAID[cause["text"]], BRIEF.get(name))
    return {"cause": name, "text": text, "facts": {}, "reason": None}


def _plain(fact: object) -> str:
    if isinstance(fact, Mapping):
        return str(fact.get("name") or f"{fact['kind']} {fact['id']}")
    if isinstance(fact, int):
        return f"{fact:,}"
    return _moment(str(fact))


def _moment(text: str) -> str:
    try:
        return f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M:%S %Z}".strip()
    except ValueError:
        return text
