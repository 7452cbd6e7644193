"""The end of a row as it is written, and the lineage for rows that it creates."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from inboxd.model.lineage import Lineage

# The status of a settlement that cancels a command which did not start by its `expires_at`.
EXPIRED: Final = "expired"


class Settlement(NamedTuple):
    """A command that ended: `succeeded`, `cancelled` or EXPIRED; seconds: of its handler's run."""

    id: int
    fence: int
    status: str
    seconds: float
    result: str | None


@dataclass(frozen=True, slots=True)
class Requeue:
    """status: `pending` (retry, deferral, release) or `failed`. error: JSON for `errors`.

    delay: seconds from now, or run_at; without both the old time stays. unrun: the handler was not
    called or could not end, for a reason outside of the row.
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
    kind: str
    id: int
    lineage: Lineage
