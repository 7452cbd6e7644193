"""The checked declarations of a plugin, ready to run.

Owns the records that pass from the plugin's API to the runtime. Promises: they are immutable; every
mistake of a declaration was found before its record was made.
Known limit: a `timeout` or `retry` of None means the default of the settings, which is unknown
here.
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
    """The fields of both kinds of handlers; `timeout` is in seconds.

    `payload_type` is the class by which `emit` or `send` finds the type, if the plugin defines it.
    needs: the resources that the handler takes.
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
    # The breaker that stops the handler while its target is down.
    breaker: str | None = None
    # For people; None: not given.
    title: str | None = None
    description: str | None = None
    # Keys of its payload whose values are never shown (`secret_keys.py`).
    secret_keys: frozenset[str] = frozenset()
    payload_type: PayloadType | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventHandler(_Declared):
    """One handler of one event type, in one topic, or (None) in topics without their own handler.

    With `command_type`, the event is sent on as a command of that type, and the CommandHandler of
    the same name runs `func`. With `chunks`, the ChunkHandler of its topic runs `func`, and this
    record reads the events of one type. With `relay`, events are published instead: `func` is never
    called.
    """

    command_type: str | None = None
    topic: str | None = None
    # For a batch topic: `func` takes chunks; whether a failing chunk may be split.
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
    """The handler of the chunks of a batch topic: how it runs, and how to read events of each type.

    page_rows: maximum events of a portion, if the topic sets it.
    """

    topic: str
    page_rows: int | None
    rule: Rule
    runs: EventHandler
    readers: Mapping[str, EventHandler]

    @property
    def may_split(self) -> bool:
        """Whether a part of a chunk is a valid chunk, so that a failing chunk may be halved."""
        return self.runs.split and not self.rule.belongs


Handler = EventHandler | CommandHandler
