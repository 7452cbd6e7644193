"""What is written when a row ends, and what it hands on to the rows that it creates.

*See:* `events` and `commands`, which write these.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from inboxd.model.lineage import Lineage


class Settlement(NamedTuple):
    """A command that ended: `succeeded` or `cancelled`, after so many seconds."""

    id: int
    fence: int
    status: str
    seconds: float
    result: str | None


@dataclass(frozen=True, slots=True)
class Requeue:
    """What becomes of a row whose handlers did not succeed, ready to be written.

    status: `pending` (retry, deferral, release) or `failed`. spent: attempts. delay in seconds from
    now, or run_at; neither keeps the old time. error: a JSON object for `errors`. unrun: for
    reasons that are not its own, its handler was not called or could not end.
    """

    id: int
    status: str
    spent: int = 0
    delay: float | None = None
    run_at: datetime | None = None
    error: str | None = None
    fingerprint: str | None = None
    fence: int = 0
    crashes: int = 0
    unrun: bool = False


class Parent(NamedTuple):
    """What created a command: an event or a command, with the lineage that it hands on."""

    kind: str
    id: int
    lineage: Lineage
