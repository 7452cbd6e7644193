"""The report of a rehearsal: writes, sent rows, log lines, and the outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from inboxd.api.progress import Progress
from inboxd.features.rehearsal.store import Kind, TableWrites
from inboxd.telemetry import tally

# The status of a sent row that a settlement would not write.
NOT_WRITTEN = "not written"


@dataclass(frozen=True, slots=True, kw_only=True)
class SentRow:
    """An event has one per topic. status: `NOT_WRITTEN` if its key is taken. payload: JSON text."""

    kind: Kind
    uuid: UUID
    type: str
    lane: str | None
    status: str
    run_at: datetime | None
    payload: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeBatch:
    """No kind: it existed before. size: members, or added ones. open: it accepts more members."""

    uuid: UUID
    kind: Literal["batch", "workflow"] | None
    name: str | None
    size: int
    open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EventEnd:
    id: int
    outcome: tally.Outcome
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    level: str
    logger: str
    message: str
    fields: Mapping[str, Any]


@dataclass(slots=True, kw_only=True)
class Rehearsal:
    """undone: a worker would undo `writes`, because the handler failed. chunk: topic, key, size.

    outcome: as in metrics. run_at: of the next attempt; a random part of the wait differs each
    time. failure: for a debugger. package: the plugin's package, to recognize its frames.
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
