"""What a plugin declared, checked and ready to run.

Owns the records that pass from the plugin's face to the runtime. Promises: they are immutable;
everything that can be wrong with a declaration was found before one was made.
Known limit: a `timeout` or `retry` of None means the settings' default, which is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import TypeAdapter

from inboxd.api.chunk_due import Rule
from inboxd.api.middleware import DeclaredMiddleware
from inboxd.api.resources import Needs
from inboxd.model.backoff import Policy

Executor = Literal["loop", "thread", "process"]
PayloadType = type[object]
Upcaster = Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Declared:
    """What both kinds of handlers have; `timeout` is in seconds.

    `payload_type` is the class by which `emit` or `send` finds the type, if it is one of the
    plugin's own. needs: the resources that it takes.
    """

    plugin: str
    type: str
    name: str
    func: Callable[..., Any]
    adapter: TypeAdapter[Any]
    schema_version: int
    timeout: float | None
    retry: Policy | None
    executor: Executor
    upcasters: Mapping[int, Upcaster]
    middleware: tuple[DeclaredMiddleware, ...]
    needs: Needs
    # What stops it while its target is down.
    breaker: str | None = None
    # What its type is called, and what for; None: not given.
    title: str | None = None
    description: str | None = None
    # Keys of its payload whose values nobody is shown (`secret_keys.py`).
    secret_keys: frozenset[str] = frozenset()
    payload_type: PayloadType | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventHandler(_Declared):
    """One handler of one event type, in one topic or (None) in those without.

    With `command_type`, the event is sent on as a command of that type, and `func` is run by the
    CommandHandler of the same name. With `chunks`, `func` is run by the ChunkHandler of its topic,
    and this one reads the events of one type. With `relay`, events are published instead: `func` is
    never called.
    """

    command_type: str | None = None
    topic: str | None = None
    # Of a batch topic: `func` takes chunks; whether a failing one may be split.
    chunks: bool = False
    split: bool = True
    relay: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandHandler(_Declared):
    """The handler of a command type.

    With `event_type`, it carries an event of that type (see `payload.decode_event_command`).
    """

    queue: str
    priority: int
    event_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkHandler:
    """The handler of the chunks of a batch topic: how it runs, and how events are read, by type.

    page_rows: the most events of a portion, where the topic has that.
    """

    topic: str
    page_rows: int | None
    rule: Rule
    runs: EventHandler
    readers: Mapping[str, EventHandler]

    @property
    def may_split(self) -> bool:
        """Whether a part of a chunk is a chunk, so that a failing one may be halved."""
        return self.runs.split and not self.rule.belongs


Handler = EventHandler | CommandHandler
