"""Which partitions have served: those that the settings keep no longer.

Promises that nothing goes before the settings, or their defaults, say so, and that bodies stay as
long as the history that needs them. Known limit: a day goes as a whole, up to a day late.
*See:* `maintenance/partitions/`, which lets them go; `operations/history.py`, which shows them.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from inboxd.settings import Settings
from inboxd.store.partitions import BODIES, HISTORY, RECEIPTS, Partition

# Bodies are needed by what was settled a day later at the most; what was settled later still is
# looked up row by row (index events_history_late).
_LATE = timedelta(days=1)

Kept = Mapping[str, timedelta | None]


def kept(settings: Settings) -> Kept:
    """How long the rows of each table are kept; None: for ever."""
    events, commands = settings.history.events, settings.history.commands
    bodies = None if events is None or commands is None else max(events, commands)
    return {
        "events_history": events,
        "commands_history": commands,
        BODIES: bodies,
        RECEIPTS: settings.history.receipts,
    }


def served(found: Sequence[Partition], keep: Kept) -> list[Partition]:
    """The partitions that are to go now, history before bodies, and the oldest first.

    History that is detached goes only if it is to go by the settings as they are now: they may
    have changed since it was written down, or a person may have detached it meanwhile, to keep it.
    What is half detached is among them in any case: no other can be detached before that is ended.
    """

    def has_served(each: Partition) -> bool:
        if each.state == "attached":
            return _is_old(each, keep) and not pins(each, found)
        return each.state == "pending" or not stays(each, keep)

    return sorted(filter(has_served, found), key=lambda each: (each.parent == BODIES, each.low))


def stays(partition: Partition, keep: Kept) -> bool:
    """Whether it is history that the settings want no more to go, though it left its table."""
    return partition.parent != BODIES and not _is_old(partition, keep)


def _is_old(partition: Partition, keep: Kept) -> bool:
    longest = keep[partition.parent]
    return longest is not None and partition.age >= longest.total_seconds()


def pins(partition: Partition, found: Sequence[Partition]) -> list[str]:
    """The partitions of history that must go before this one of bodies."""
    if partition.parent != BODIES:
        return []
    return [
        each.part for each in found if each.parent in HISTORY and each.low < partition.high + _LATE
    ]
