"""What the receiver logs of requests.

Owns these lines. Promises: nothing of a body, no header and no secret is in them; what strangers
cause is at most a few lines a second, and what was left out is counted. A receipt that was stored
has a line with its events' ids where lines of single rows are wanted (`log.rows`).
"""

import logging
from collections.abc import Sequence
from time import monotonic
from traceback import format_tb
from uuid import UUID

from inboxd.telemetry.logs import ROWS, get_logger

_log = get_logger(__name__)
_rows = get_logger(ROWS)
_enabled = logging.getLogger(ROWS).isEnabledFor

_LINES_A_SECOND = 5


class ReceiverLog:
    """The lines of one receiver."""

    def __init__(self) -> None:
        self._second = 0
        self._lines = 0
        self._left_out = 0

    def refused(self, source: str, reason: str, address: str | None, detail: str) -> None:
        """A request was not accepted."""
        if self._may_speak():
            _log.warning(
                "webhook refused",
                source=source,
                reason=reason,
                detail=detail,
                address=address,
                left_out=self._take_left_out(),
            )

    def dead_letter(self, source: str, outcome: str, receipt: UUID, reason: str) -> None:
        """What was accepted is no event that can be handled."""
        if self._may_speak():
            _log.warning(
                "webhook is a dead letter",
                source=source,
                outcome=outcome,
                receipt_id=receipt,
                reason=reason,
                left_out=self._take_left_out(),
            )

    def failed(self, source: str, error: Exception) -> None:
        """A fault of the receiver or of a plugin's scheme: not its words, which may quote."""
        if self._may_speak():
            below = {"exception": "".join(format_tb(error.__traceback__))}
            kind, left_out = type(error).__name__, self._take_left_out()
            _log.error("webhook failed", source=source, error=kind, left_out=left_out, **below)

    def received(
        self, source: str, outcome: str, receipt: UUID, events: Sequence[UUID], key_id: str | None
    ) -> None:
        """A request was accepted, and is durable."""
        if _enabled(logging.INFO):
            _rows.info(
                "webhook received",
                source=source,
                outcome=outcome,
                receipt_id=receipt,
                event_ids=list(events),
                key_id=key_id,
            )

    def _may_speak(self) -> bool:
        second = int(monotonic())
        if second != self._second:
            self._second, self._lines = second, 0
        self._lines += 1
        if self._lines <= _LINES_A_SECOND:
            return True
        self._left_out += 1
        return False

    def _take_left_out(self) -> int:
        left_out, self._left_out = self._left_out, 0
        return left_out
