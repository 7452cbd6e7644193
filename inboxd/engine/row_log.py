"""Log lines of single rows: the start, the end, and the reason of a failure.

Callers ask `logs_starts` or `logs_ends` first, so that unlogged rows cost nothing.
"""

import logging
from collections.abc import Callable

from inboxd.api.chunks import ChunkInfo
from inboxd.engine.outcomes import kind_of, name, uuid_of
from inboxd.model.frames import own_frames, place_of
from inboxd.model.outcome import Dead, Deferred, Unsuccessful, failure_of, whole_traceback
from inboxd.store.rows import ClaimedCommand, ClaimedEvent, ClaimedRow
from inboxd.store.settlements import EXPIRED
from inboxd.telemetry.logs import ROWS, bound, get_logger

_log = get_logger(__name__)
_rows = get_logger(ROWS)
# Cached by the standard library: costs a tenth of a microsecond.
_enabled = logging.getLogger(ROWS).isEnabledFor
_debugs = logging.getLogger(__name__).isEnabledFor

_ENDS = {"succeeded": "command succeeded", EXPIRED: "command has expired before it started"}


def logs_starts() -> bool:
    return _enabled(logging.DEBUG)


def logs_ends() -> bool:
    return _enabled(logging.INFO)


def event_starts(row: ClaimedEvent) -> None:
    _log_row(_rows.debug, "event starts", row, topic=row["topic"], attempt=row["attempts"] + 1)


def chunk_starts(info: ChunkInfo, first: ClaimedEvent, size: int) -> None:
    """first: the first event of the chunk, or of the part of it that starts."""
    _rows.debug("chunk starts", topic=info.topic, key=info.key, id=first["id"], events=size)


def command_starts(row: ClaimedCommand) -> None:
    _log_row(_rows.debug, "command starts", row, queue=row["queue"], attempt=row["attempts"] + 1)


def event_succeeded(row: ClaimedEvent, seconds: float, sent: int) -> None:
    ms = _milliseconds(seconds)
    _log_row(_rows.info, "event succeeded", row, topic=row["topic"], ms=ms, sent=sent)


def chunk_succeeded(info: ChunkInfo, size: int, seconds: float, sent: int) -> None:
    """size: of the chunk, or of the part of it that is settled."""
    ms = _milliseconds(seconds)
    _rows.info("chunk succeeded", topic=info.topic, key=info.key, events=size, ms=ms, sent=sent)


def command_ended(row: ClaimedCommand, status: str, seconds: float, sent: int) -> None:
    text = _ENDS.get(status, "command was cancelled")
    _log_row(_rows.info, text, row, queue=row["queue"], ms=_milliseconds(seconds), sent=sent)


def did_not_succeed(
    row: ClaimedRow, outcome: Unsuccessful, error: BaseException, package: str
) -> None:
    """Log a failed or deferred attempt. package: the handler's own."""
    dead, deferred = isinstance(outcome, Dead), isinstance(outcome, Deferred)
    below: dict[str, object] = {}
    if not deferred and (place := place_of(error, package)):  # a deferral is not a failure
        below["at"] = place
        if _debugs(logging.DEBUG):  # with inboxd's frames, which `errors` leaves out
            below["exception"] = whole_traceback(error)
        elif logs_ends():
            below["exception"] = "".join(own_frames(error, package).format())
    kind = kind_of(row)
    _log_row(
        _log.error if dead else _log.info if deferred else _log.warning,
        f"{kind} is a dead letter" if dead else f"{kind} did not succeed",
        row,
        outcome=name(outcome),
        attempt=row["attempts"] + 1,
        error=failure_of(outcome, error).error,
        **below,
    )


def _log_row(say: Callable[..., object], text: str, row: ClaimedRow, **more: object) -> None:
    own = uuid_of(row)
    with bound(**{f"{kind_of(row)}_id": own, "correlation_id": row["correlation_id"] or own}):
        say(text, type=row["type"], id=row["id"], **more)


def _milliseconds(seconds: float) -> float:
    return round(1000 * seconds, 1)
