"""The statuses of events and commands, and the only legal moves between them (promise 8).

Tests compare SQL and the diagram with it. The settling SQL decides whether a move happens.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class Status(StrEnum):
    PENDING = "pending"
    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DISMISSED = "dismissed"


# A retry, a deferral or a release of an event is not a move: an event is `pending` while it runs,
# since its page is one transaction. `failed` to `failed` is a dead letter that was replayed as a
# new row: it keeps its status and moves to history.
TRANSITIONS: Mapping[Status, frozenset[Status]] = MappingProxyType(
    {
        Status.PENDING: frozenset(
            {Status.RUNNING, Status.WAITING, Status.SUCCEEDED, Status.FAILED, Status.CANCELLED}
        ),
        Status.WAITING: frozenset({Status.PENDING, Status.FAILED, Status.CANCELLED}),
        Status.RUNNING: frozenset(
            {Status.PENDING, Status.SUCCEEDED, Status.FAILED, Status.CANCELLED}
        ),
        Status.FAILED: frozenset({Status.PENDING, Status.FAILED, Status.DISMISSED}),
        Status.SUCCEEDED: frozenset(),
        Status.CANCELLED: frozenset(),
        Status.DISMISSED: frozenset(),
    }
)

# Dead letters stay hot, so that no retention loses one (design, section 4).
HOT = frozenset({Status.PENDING, Status.WAITING, Status.RUNNING, Status.FAILED})
SETTLED = frozenset({Status.SUCCEEDED, Status.CANCELLED, Status.DISMISSED})


# A command with an ordering key is never `pending`: it waits in the line of its key, is claimed
# from there, and is released to there.
KEYED = frozenset({(Status.WAITING, Status.RUNNING), (Status.RUNNING, Status.WAITING)})


def is_legal(old: Status, new: Status, *, keyed: bool = False) -> bool:
    """Whether a row may go from `old` to `new`; keyed: a command with an ordering key."""
    return new in TRANSITIONS[old] or (keyed and (old, new) in KEYED)
