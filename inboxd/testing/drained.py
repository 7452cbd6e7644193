"""The report of a drain: the changed rows, and the rows that are left.

Owns the report, and the texts for failed and overdue rows. Promises: a row is in exactly one of the
lists; a failure shows the handler's own traceback. Known limit: if a row ran more than once, its
newest run counts.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from inboxd.registry.registry import Registry
from inboxd.telemetry.monitor import Running
from inboxd.testing.stored import StoredCommand, StoredEvent

Stored = StoredEvent | StoredCommand
Key = tuple[str, int]
# Rows as they were before the drain.
Before = Mapping[Key, Stored]

_ROWS_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """The rows that a drain settled or tried, by outcome; and the unsettled rows that are left.

    succeeded; dead: dead letters; retrying: failed, and run again later; deferred; cancelled: also
    commands that were not needed; dismissed. left: rows that did not run: due later, paused,
    blocked, or without a handler here.
    """

    succeeded: list[Stored] = field(default_factory=list)
    dead: list[Stored] = field(default_factory=list)
    retrying: list[Stored] = field(default_factory=list)
    deferred: list[Stored] = field(default_factory=list)
    cancelled: list[Stored] = field(default_factory=list)
    dismissed: list[Stored] = field(default_factory=list)
    left: list[Stored] = field(default_factory=list)

    @property
    def failed(self) -> list[Stored]:
        """The rows whose handler failed, whether or not they are tried again."""
        return [*self.dead, *self.retrying]


def sorted_out(before: Before, after: Iterable[Stored]) -> Drained:
    """Put each row of `after` in its list; rows that were settled before are in none."""
    drained = Drained()
    settled = {
        "succeeded": drained.succeeded,
        "failed": drained.dead,
        "cancelled": drained.cancelled,
        "dismissed": drained.dismissed,
    }
    for row in after:
        old = before.get((row.kind, row.id))
        if old == row:
            if row.status not in settled:
                drained.left.append(row)
        elif row.status in settled:
            settled[row.status].append(row)
        elif len(row.errors) > (0 if old is None else len(old.errors)):
            drained.retrying.append(row)
        elif _was_deferred(old, row):
            drained.deferred.append(row)
        else:
            drained.left.append(row)
    return drained


def _was_deferred(old: Stored | None, row: Stored) -> bool:
    """Whether a row that did not fail will run later than it was going to."""
    if isinstance(row, StoredEvent) and row.mode == "batch":
        return False  # it waits for its chunk
    if old is not None:
        return row.run_at > old.run_at
    return min(row.updated_at, row.run_at) > row.created_at


def failures(drained: Drained, now: datetime) -> str:
    """The text of HandlersFailed."""
    rows = drained.failed
    handlers = "A handler" if len(rows) == 1 else f"{len(rows)} handlers"
    parts = [f"{handlers} failed (drain(check=False) returns them instead):"]
    for row in rows[:_ROWS_SHOWN]:
        tries = f"attempt {row.attempts}"
        then = "a dead letter" if row in drained.dead else f"again in {row.run_at - now}"
        parts.append(f"{row}\n{tries}, then {then}:\n{row.traceback or row.error}")
    if len(rows) > _ROWS_SHOWN:
        parts.append(f"… and {len(rows) - _ROWS_SHOWN} more.")
    return "\n\n".join(parts)


def overdue(within: float, running: Sequence[Running], due: Iterable[tuple[Stored, str]]) -> str:
    """The text of DrainTimeout."""
    runs = {(each.kind, each.id) for each in running}
    lines = [f"{each.kind} {each.id} {each.type}: its handler is still running" for each in running]
    lines += [f"{row}: {why}" for row, why in due if (row.kind, row.id) not in runs]
    shown = [
        *lines[:_ROWS_SHOWN],
        *([f"… and {len(lines) - _ROWS_SHOWN} more"] if len(lines) > _ROWS_SHOWN else []),
    ]
    what = "\n- ".join(["Still due:", *shown]) if shown else "Nothing is due now."
    return f"The inbox was not drained within {within:g} s. {what}"


def still_due(
    drained: Drained, registry: Registry, paused: Collection[tuple[str, str]], now: datetime
) -> Iterator[tuple[Stored, str]]:
    """The rows that can run now but did not; with the reason, as far as it is known."""
    for row in (*drained.left, *drained.retrying, *drained.deferred):
        place = "topic" if isinstance(row, StoredEvent) else "queue"
        held = {(place, row.lane), ("type", row.type)} & set(paused)
        if row.run_at > now or held or not _is_handled(row, registry):
            continue
        if isinstance(row, StoredCommand) and row.needs:
            continue
        yield row, _why(drained, row)


def _is_handled(row: Stored, registry: Registry) -> bool:
    if isinstance(row, StoredCommand):
        return row.type in registry.commands
    return row.lane in registry.chunks or bool(registry.handlers_of(row.lane, row.type))


def _why(drained: Drained, row: Stored) -> str:
    if row in drained.deferred:
        return "deferred, and due again at once"
    if row in drained.retrying:
        return f"failed {row.attempts} times, and due again at once; {row.error}"
    if row.status == "waiting":
        return "it waits in its line: for an open transaction, or behind another row"
    return "another session has locked it, or its queue or topic is at its limit"
