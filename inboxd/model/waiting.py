"""A cause for which an unsettled row does not run, and the sentence that says it.

Owns the texts: the command line, the API and the screens say the same, the screens also in other
languages. Promises that what is told of others can be left out. Pure.
*See:* `waiting_rules`, which finds the causes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from string import Formatter
from typing import Any, Final

Facts = Mapping[str, Any]

# What each cause says; one that says different things has a name for each. In braces: its facts.
TEXTS: Final[Mapping[str, str]] = {
    "running": "It runs now: on worker {worker}, since {at}",
    "ending": "It runs now, on worker {worker}, and was asked to end",
    "lost": "Its worker {worker} has said nothing for {silence}: another takes it back, from {at} "
    "on",
    "lost, due": "Its worker {worker} has said nothing for {silence}: another is about to take it "
    "back",
    "lost, alone": "Its worker {worker} has said nothing for {silence}, and no other is running "
    "that takes it back",
    "gone": "Its worker {worker} is gone, and no other takes back by itself what it ran",
    "dead": "It is a dead letter (attempts: {attempts}): it runs again when it is replayed",
    "dead, rival": "It is a dead letter, and cannot be replayed: {row} has its unique key",
    "dead, cancelled": "It is a dead letter, and cannot be replayed: {row} was cancelled",
    "batch": "It waits for {row}: {left} of {size} are left",
    "batch, dead": "It waits for {row}: {left} of {size} are left, of them dead letters: {failed}",
    "batch, open": "It waits for {row}, which is still open: {left} of {size} are left",
    "row": "It waits for {row}, which is {status}",
    "others": "It waits for others beside these: {more}",
    "others, many": "It waits for others beside these: at least {more}",
    "released": "It waits for what has ended by now, and is about to be released",
    "paused queue": "Its queue {queue} is paused: by {actor}, since {at}",
    "paused topic": "Its topic {topic} is paused: by {actor}, since {at}",
    "paused type": "Its type {type} is paused: by {actor}, since {at}",
    "paused reader": "Its chunk is run with {type}, which is paused: by {actor}, since {at}",
    "disabled": "Its endpoint {endpoint} is disabled: by {actor}, since {at}",
    "unpartitioned": "History has no partition for today: no worker takes anything until there is "
    "one",
    "nobody": "No worker is running",
    "unserved": "No running worker has a handler for {type} in the queue {queue}",
    "kept": "No living worker has a handler for {type} in the topic {topic}: it is kept for one",
    "breaker": "It needs the breaker {breaker}, which is open until {at}, and is tried then",
    "breaker, due": "It needs the breaker {breaker}, whose break is over: a worker is about to try",
    "breaker, tried": "It needs the breaker {breaker}, which worker {worker} tries just now",
    "breaker, forced": "It needs the breaker {breaker}, which {actor} has forced open",
    "intake": "Its topic {topic} takes in what waited elsewhere, since {at}",
    "behind": "Its ordering key is held by {row}, a dead letter: replay or dismiss it",
    "behind, kept": "Its ordering key is held by {row}, which no living worker handles",
    "behind, paused": "It comes after {row} of its ordering key, whose type {type} is paused: "
    "by {actor}, since {at}",
    "behind, unserved": "It comes after {row} of its ordering key, and no running worker has a "
    "handler for {type}",
    "behind, breaker": "It comes after {row} of its ordering key, which needs the breaker "
    "{breaker}, and that is open",
    "behind, apart": "It comes after {row} of its ordering key, which ran on a worker that died",
    "behind, running": "It comes after {row} of its ordering key, which runs now",
    "behind, later": "It comes after {row} of its ordering key, which is due at {at}",
    "behind, next": "It comes after {row} of its ordering key, which is due",
    "key": "Of its ordering key {running} run, and no more than {most} may",
    "chunk": "Its chunk is due at {at}, and has {size} events",
    "chunk, or full": "Its chunk has {size} of {full} events, and is due at {at} at the latest",
    "chunk, full": "Its chunk has {size} of {full} events, and waits for the others",
    "chunk, types": "Its chunk has {size} events, and waits for {missing}, until {at} at most",
    "chunk, types only": "Its chunk has {size} events, and waits for {missing}",
    "due": "It is due at {at}",
    "again": "It is due at {at}, for attempt {attempt} of {attempts}",
    "apart": "Its worker died {crashes} times while it ran: it is left alone until {at}",
    "suspect": "It ran on a worker that died: it runs with {others} others of its group",
    "alone": "It ran on workers that died: it runs alone, on a worker that does nothing else",
    "total": "Its queue {queue} is at its limit: {running} of {most} run",
    "rate": "Its queue {queue} is at its rate: {claimed} of {most} in {period}, more at {at}",
    "full": "Its topic {topic} is at its limit: {running} of {most} pages run",
    "exclusive": "All workers that serve it ({workers}) run nothing else beside a command that may "
    "have ended a worker, or make ready for that",
    "busy": "All workers that serve it ({workers}) run as many commands as they may",
    "producer": "A producer that began before it may still commit ({writers} of its bucket)",
    "unseen": "A producer may have begun before it, and may still commit ({writers} of its bucket; "
    "members of pg_read_all_stats are told since when)",
    "leased": "Worker {worker} publishes events of its bucket now",
    "visited": "A worker processes events of its bucket now",
    "ahead": "Nothing holds it: {ahead} before it in its lane",
    "ahead in line": "Nothing holds its ordering key: {ahead} before it, the first is {row}",
    "ahead in bucket": "Nothing holds it: {ahead} before it in its bucket",
    "first": "Claims take others first, as far as these may run: {rows}, from queue {queue} on",
    "first, many": "Claims take others first, as far as these may run: at least {rows}, from queue "
    "{queue} on",
    "next": "Nothing holds it: it is the next of its lane, or is claimed just now",
    "next in line": "Nothing holds it: it is the next of its ordering key, or is claimed just now",
    "next in bucket": "Nothing holds it: it is the next of its bucket, or is claimed just now",
}
# What is said to who may not see what others have to do with it.
BRIEF: Final[Mapping[str, str]] = {
    "running": "It runs now",
    "waits": "It waits for others",
    "paused": "It is paused",
    "disabled": "Its endpoint is disabled",
    "breaker": "What it needs is down",
    "behind": "Others of its ordering key come first",
    "limit": "As many run as may",
    "suspect": "It ran on a worker that died, and is set apart",
    "next": "Nothing holds it",
    "first": "Others are claimed first",
    "intake": "Its topic takes in what waited elsewhere",
    "producer": "A producer that began before it may still commit",
    "dead": "It is a dead letter",
    "unserved": "No running worker has a handler for it",
    "chunk": "Its chunk is not due",
}
# The same of texts for which that would not be true.
BRIEF_OF: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("lost", "lost, due", "lost, alone"), "Its worker has said nothing for a while"
    ),
    "gone": "Its worker is gone",
    **dict.fromkeys(("leased", "visited"), "A worker has its bucket now"),
    "chunk, full": "Its chunk waits for others",
    "chunk, types only": "Its chunk waits for others",
    "exclusive": "All workers that serve it are busy",
}
# Those whose facts are the row's own.
OWN: Final = frozenset({"due", "nobody", "partition"})
_SAID: Final = {text: said for said, text in TEXTS.items()}


@dataclass(frozen=True, slots=True)
class WaitingCause:
    """One reason. said: the key of its text; facts: what stands in its braces.

    A fact that can be looked at is an object with `kind`, and `id` or `name`. note: what an
    operator gave as the reason.
    """

    name: str
    said: str
    facts: Facts = field(default_factory=dict)
    note: str | None = None

    def document(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "cause": self.name,
            "text": TEXTS[self.said],
            "facts": dict(self.facts),
            "reason": self.note,
        }


def sentence(causes: Sequence[Mapping[str, Any]]) -> str:
    """All of them in words, as `document` has them."""
    return " And then: ".join(f"{told(each)}." for each in causes)


def told(cause: Mapping[str, Any]) -> str:
    """One of them, without its full stop."""
    parts = [
        literal + ("" if name is None else _plain(cause["facts"][name]))
        for literal, name, _, _ in Formatter().parse(cause["text"])
    ]
    return "".join(parts) + (f" ({cause['reason']})" if cause["reason"] else "")


def brief(why: Mapping[str, Any]) -> dict[str, Any]:
    """The same without what is told of others, not even how many, for who may not see those."""
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
    """A time in UTC to the second, if it is one."""
    try:
        return f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M:%S %Z}".strip()
    except ValueError:
        return text
