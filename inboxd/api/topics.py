"""Topics: how the events of one consumer are processed, as written and as checked.

Owns both records. Promises: a `Topic` can be used without further lookups; all its mistakes are
found when the plugins are loaded. An undeclared topic is `single`.
Known limit: the mode of a row was set when it was written, by the declaration of that time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypedDict, get_args

from inboxd.api.cron import Cron
from inboxd.errors import UsageError
from inboxd.model import checks, duration
from inboxd.model.backoff import Policy
from inboxd.model.checks import Mode
from inboxd.model.duration import Duration

OnFailure = Literal["block", "skip"]

DEFAULT = "default"

_BARE_TILDE = re.compile("~(?![01])")
_MOST_PAGE_ROWS = 10_000
_MOST_AT_ONCE = 64
_MOST_IN_A_CHUNK = 1_000_000


class TopicOptions(TypedDict, total=False):
    """The options of a topic, as written; None: not given."""

    mode: Mode | None
    key: str | None
    on_failure: OnFailure | None
    page_rows: int | None
    poll_interval: Duration | None
    retry: Policy | None
    total_concurrency: int | None
    count: int | None
    age: Duration | None
    cron: str | None
    zone: str | None
    expect: Sequence[str] | int | None
    dedup: str | None
    dedup_window: Duration | None


@dataclass(frozen=True, slots=True)
class TopicDeclaration:
    """A topic as a plugin or the settings declare it; said: as in `TopicOptions`.

    relay: it is the topic of a relay of the settings.
    """

    name: str
    source: str
    said: Mapping[str, Any]
    relay: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic that can be processed; paths lead to a value in the payload.

    dedup_path: () means the event_id. expect: event types, or the number of events, that make a
    chunk complete; `age` is then how long the chunk waits for them. relay: its events are
    published, and an event without an ordering key does not hold up other events.
    """

    name: str
    source: str
    mode: Mode = "single"
    key_path: tuple[str, ...] | None = None
    on_failure: OnFailure = "block"
    page_rows: int | None = None
    poll_interval: timedelta | None = None
    retry: Policy | None = None
    total_concurrency: int | None = None
    count: int | None = None
    age: timedelta | None = None
    cron: Cron | None = None
    expect: tuple[str, ...] | int | None = None
    dedup_path: tuple[str, ...] | None = None
    dedup_window: timedelta | None = None
    relay: bool = False

    def rules(self) -> dict[str, object]:
        """Its options for people, besides mode and paths, as a JSON object."""
        shown: dict[str, object] = {}
        for name in _RULES[self.mode]:
            value = getattr(self, name)
            if isinstance(value, timedelta):
                value = duration.write(value)
            elif isinstance(value, Cron):
                value = f"{value.expression} {value.zone}"
            if value is not None:
                shown[name] = value
        return shown


# Options of each mode, in the order in which they are shown.
_ALWAYS = ("page_rows", "poll_interval", "total_concurrency", "dedup_window")
_OF_CHUNKS = ("count", "age", "cron", "expect")
_RULES: Mapping[Mode, tuple[str, ...]] = {
    "single": _ALWAYS,
    "sequential": ("on_failure", *_ALWAYS),
    "batch": (*_OF_CHUNKS, *_ALWAYS),
}
# Options of a relay's topic that `[relays]` sets, or that do not exist there.
_OF_RELAYS = ("mode", "on_failure", "page_rows", "total_concurrency")
# Options of some modes only.
_MODES_OF: Mapping[str, tuple[Mode, ...]] = {
    "key": ("sequential", "batch"),
    "on_failure": ("sequential",),
    **dict.fromkeys((*_OF_CHUNKS, "zone"), ("batch",)),
}


def pointer(text: str) -> tuple[str, ...]:
    """The path of a JSON pointer (RFC 6901). Raises UsageError."""
    if not text.startswith("/") or "\0" in text:
        raise UsageError(f'{text!r} is not a JSON pointer: write it as in "/user/id".')
    if _BARE_TILDE.search(text):
        raise UsageError(f'{text!r} is not a JSON pointer: write "~0" for a ~ in a name.')
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/"))


def checked(declared: TopicDeclaration) -> Topic:
    """Check a declaration. Raises UsageError."""
    said: dict[str, Any] = {**dict.fromkeys(TopicOptions.__annotations__), **declared.said}
    mode: Mode = said["mode"] or "single"
    _check_name(declared.name, mode)
    _check_options(said, mode)
    _check_numbers(said)
    same = {name: said[name] for name in ("page_rows", "retry", "total_concurrency", "count")}
    spans: dict[str, Any] = {
        name: _span(name, said[name]) for name in ("poll_interval", "age", "dedup_window")
    }
    return Topic(
        name=declared.name,
        source=declared.source,
        mode=mode,
        key_path=None if said["key"] is None else pointer(said["key"]),
        on_failure=said["on_failure"] or "block",
        cron=None if said["cron"] is None else Cron(said["cron"], said["zone"] or "UTC"),
        expect=_expected(said["expect"]),
        dedup_path=_dedup_path(said["dedup"]),
        relay=declared.relay,
        **same,
        **spans,
    )


def laid_over(declared: TopicDeclaration, changes: Mapping[str, Any], source: str) -> Topic:
    """Replace some values of a declaration; None removes a value. Raises UsageError.

    If the mode changes, options that belong only to the old mode are dropped.
    """
    if declared.relay and (told := [name for name in _OF_RELAYS if name in changes]):
        raise UsageError(
            f"{', '.join(told)}: this is the topic of a relay: set it in [relays], if relays have "
            "this option."
        )
    said: dict[str, Any] = {**declared.said}
    mode = changes.get("mode", said.get("mode")) or "single"
    kept = {name: value for name, value in said.items() if mode in _MODES_OF.get(name, (mode,))}
    if changes.get("cron", said.get("cron")) is None:
        kept.pop("zone", None)  # the zone belonged to a cron that was removed
    said = {**kept, **changes}
    return checked(TopicDeclaration(declared.name, source, said, declared.relay))


def _check_name(name: str, mode: Mode) -> None:
    checks.refuse(f"the topic {name!r:.60}", checks.plain(name))
    if mode not in get_args(Mode):
        raise UsageError(f'mode={mode!r}: say "single", "sequential" or "batch".')
    if name == DEFAULT and mode != "single":
        raise UsageError(f'the topic "default" gets events without a topic: it cannot be {mode}.')


def _check_options(said: Mapping[str, Any], mode: Mode) -> None:
    """Refuse options that have no effect in this mode."""
    if said["on_failure"] not in (*get_args(OnFailure), None):
        raise UsageError(f'on_failure={said["on_failure"]!r}: say "block" or "skip".')
    for name, modes in _MODES_OF.items():
        if mode not in modes and said[name] is not None:
            raise UsageError(f"{name}= is for {' and '.join(modes)} topics: this one is {mode}.")
    if mode == "batch" and all(said[name] is None for name in _OF_CHUNKS):
        raise UsageError("no rule says when a chunk is due: give count=, age=, cron= or expect=.")
    if said["zone"] is not None and said["cron"] is None:
        raise UsageError("zone= is the zone of cron=, which is missing.")
    if said["expect"] is not None and (said["age"] is None or said["count"] is not None):
        raise UsageError("expect= needs age=, its deadline, and goes without count=.")


def _check_numbers(said: Mapping[str, Any]) -> None:
    for name, most in (
        ("page_rows", _MOST_PAGE_ROWS),
        ("total_concurrency", _MOST_AT_ONCE),
        ("count", _MOST_IN_A_CHUNK),
    ):
        if said[name] is not None and not _counts(said[name], most):
            raise UsageError(f"{name}={said[name]!r}: give a number from 1 to {most:,}.")
    if not isinstance(said["retry"], (*get_args(Policy), type(None))):
        raise UsageError(f"retry={said['retry']!r}: give a policy such as Exponential(attempts=5).")


def _counts(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most


def _span(name: str, value: Duration | None) -> timedelta | None:
    if value is None:
        return None
    span = duration.parse(value)
    if span <= timedelta(0):
        raise UsageError(f"{name}={value!r}: give more than zero.")
    return span


def _expected(expect: Sequence[str] | int | None) -> tuple[str, ...] | int | None:
    if expect is None or _counts(expect, _MOST_IN_A_CHUNK):
        return expect  # type: ignore[return-value] # a number, or None
    if isinstance(expect, (int, str)) or not expect:
        raise UsageError(f"expect={expect!r}: give event types, or a number of events.")
    if not all(isinstance(each, str) for each in expect) or len(set(expect)) < len(expect):
        raise UsageError(f"expect={expect!r}: give different event types, each once.")
    return tuple(expect)


def _dedup_path(dedup: str | None) -> tuple[str, ...] | None:
    if dedup is None:
        return None
    return () if dedup == "event_id" else pointer(dedup)
