"""The receiver's log lines: no data of a body or header; a few per second for unknown senders."""

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
    def __init__(self) -> None:
        self._second = 0
        self._lines = 0
        self._left_out = 0

    def refused(self, source: str, reason: str, address: str | None, detail: str) -> None:
        if self._may_log():
            _log.warning(
                "webhook refused",
                source=source,
                reason=reason,
                detail=detail,
                address=address,
                left_out=self._take_left_out(),
            )

    def dead_letter(self, source: str, outcome: str, receipt: UUID, reason: str) -> None:
        if self._may_log():
            _log.warning(
                "webhook is a dead letter",
                source=source,
                outcome=outcome,
                receipt_id=receipt,
                reason=reason,
                left_out=self._take_left_out(),
            )

    def failed(self, source: str, error: Exception) -> None:
        """Report an error without its message, which may quote the request."""
        if self._may_log():
            below = {"exception": "".join(format_tb(error.__traceback__))}
            kind, left_out = type(error).__name__, self._take_left_out()
            _log.error("webhook failed", source=source, error=kind, left_out=left_out, **below)

    def received(
        self, source: str, outcome: str, receipt: UUID, events: Sequence[UUID], key_id: str | None
    ) -> None:
        if _enabled(logging.INFO):
            _rows.info(
                "webhook received",
                source=source,
                outcome=outcome,
                receipt_id=receipt,
                event_ids=list(events),
                key_id=key_id,
            )

    def _may_log(self) -> bool:
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
