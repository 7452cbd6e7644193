"""Retention: which partitions are older than the settings keep them.

Promises that no partition is dropped before the settings or their defaults say so, and that bodies
stay as long as history needs them. Known limit: a day is dropped as a whole, up to a day late.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from inboxd.settings import Settings
from inboxd.store.partitions import BODIES, HISTORY, RECEIPTS, Partition

# A body is needed by rows that are settled up to a day later; rows that are settled even later are
# searched one by one (index events_history_late).
_LATE = timedelta(days=1)

Kept = Mapping[str, timedelta | None]


def kept(settings: Settings) -> Kept:
    """How long the rows of each table are kept; None: forever."""
    events, commands = settings.history.events, settings.history.commands
    bodies = None if events is None or commands is None else max(events, commands)
    return {
        "events_history": events,
        "commands_history": commands,
        BODIES: bodies,
        RECEIPTS: settings.history.receipts,
    }


def served(found: Sequence[Partition], keep: Kept) -> list[Partition]:
    """The partitions to remove now: history before bodies, oldest first.

    Detached history only if the settings still exclude it: a person may want to keep it. An
    interrupted detach always: no other partition can be detached before it is finished.
    """

    def has_served(each: Partition) -> bool:
        if each.state == "attached":
            return _is_old(each, keep) and not pins(each, found)
        return each.state == "pending" or not stays(each, keep)

    return sorted(filter(has_served, found), key=lambda each: (each.parent == BODIES, each.low))


def stays(partition: Partition, keep: Kept) -> bool:
    """Whether it is history that was detached, but that the settings now want to keep."""
    return partition.parent != BODIES and not _is_old(partition, keep)


def _is_old(partition: Partition, keep: Kept) -> bool:
    longest = keep[partition.parent]
    return longest is not None and partition.age >= longest.total_seconds()


def pins(partition: Partition, found: Sequence[Partition]) -> list[str]:
    if partition.parent != BODIES:
        return []
    return [
        each.part for each in found if each.parent in HISTORY and each.low < partition.high + _LATE
    ]
