"""What a rehearsal tells: what would be written, sent and logged, and how the row would end.

Owns these values. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from inboxd.api.progress import Progress
from inboxd.store.rehearsal import Kind, TableWrites
from inboxd.telemetry import tally

# What a row's settlement would make of a thing that was sent.
NOT_WRITTEN = "not written"


@dataclass(frozen=True, slots=True, kw_only=True)
class SentRow:
    """A command or an event that the handlers sent, as the database took it; an event by topic.

    status: `NOT_WRITTEN` if another row has its unique or dedup key. payload: JSON text.
    """

    kind: Kind
    uuid: UUID
    type: str
    lane: str | None
    status: str
    run_at: datetime | None
    payload: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeBatch:
    """A batch or workflow that the handlers made; or (no kind) one of others that they changed.

    size: members, or how many were added. open: it takes more.
    """

    uuid: UUID
    kind: Literal["batch", "workflow"] | None
    name: str | None
    size: int
    open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EventEnd:
    """An event of a chunk that has an end of its own; outcome as in `Rehearsal`."""

    id: int
    outcome: tally.Outcome
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A line that was logged meanwhile: of the handlers' own loggers, or a warning."""

    level: str
    logger: str
    message: str
    fields: Mapping[str, Any]


@dataclass(slots=True, kw_only=True)
class Rehearsal:
    """What came of one.

    outcome: as metrics call it (succeeded, retried, deferred, failed). run_at: when it would run
    again; a random part of a wait is drawn anew each time. undone: what was written before the
    handler failed, and would have been undone. chunk: topic, key and size. failure: the handlers'
    own exception, for a debugger; package: whose frames are the plugin's.
    """

    kind: Kind
    id: int
    attempt: int
    handlers: Sequence[str]
    role: str
    outcome: tally.Outcome = "succeeded"
    run_at: datetime | None = None
    error: str | None = None
    traceback: str | None = None
    path: str | None = None
    result: str | None = None
    seconds: float = 0.0
    writes: list[TableWrites] = field(default_factory=list)
    undone: bool = False
    sent: list[SentRow] = field(default_factory=list)
    batches: list[MadeBatch] = field(default_factory=list)
    progress: list[Progress] = field(default_factory=list)
    log: list[LogLine] = field(default_factory=list)
    chunk: Mapping[str, Any] | None = None
    events: list[EventEnd] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    left_behind: bool = False
    failure: BaseException | None = None
    package: str = ""
