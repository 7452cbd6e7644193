"""One endpoint in one worker: its URL, its signatures, and the results of its deliveries.

Promises: only answers of its present URL count; after a success in any worker, older failures no
longer count, whichever is written first; a change applies here at once and is `unwritten` until the
table has it. Known limit: a failure is recorded only after some seconds without a success here, so
an endpoint that alternates between failure and success does not count as failing. *See:* `book`.
"""

from collections import Counter
from math import inf
from typing import Literal, get_args

from inboxd.errors import SettingsError
from inboxd.model.endpoints import WrittenEndpoint
from inboxd.signatures.contract import Key
from inboxd.signatures.standard_webhooks import StandardWebhooksVerifier

# Changes to write: the endpoint fails; it has recovered; a delivery succeeded; it must be disabled,
# since it failed for too long ("failures") or answered 410 ("gone").
News = Literal["failing", "recovered", "succeeded", "failures", "gone"]

Ending = Literal["succeeded", "failed"]
ENDINGS: tuple[Ending, ...] = get_args(Ending)

# Seconds without a success until a failure is recorded, at most a tenth of disable_after; and
# between two records of a success.
_STEADY_SECONDS, _SUCCESS_SECONDS = 5.0, 60.0


class ServedEndpoint:
    """One endpoint; callers pass all times, in seconds of a monotonic clock."""

    def __init__(self, written: WrittenEndpoint, now: float) -> None:
        self.written = written
        # The reason why requests cannot be signed, if there is one.
        self.trouble = ""
        self._signer = self._make_signer()
        # The status of the last answer, None if there was none; and the error.
        self.status: int | None = None
        self.reason = ""
        self._success_status = 0
        # Time of this worker's newest success that is in the table.
        self._noted_success = -inf
        # For the metrics: deliveries ended since the last call of `counts`, by outcome.
        self._counts: Counter[Ending] = Counter()
        self._noted = -inf
        self._gone = False
        self._first_failure: float | None = None
        # Begin of the failures, as written by this worker.
        self._wrote_since = -inf
        self._last_success = self._last_failure = -inf
        self._since = self._failing_since(now)
        self._told_success = self._succeeded_at(now)

    @property
    def queue(self) -> str:
        """The queue of its deliveries, which is also the name of its breaker."""
        return f"webhooks.{self.written.name}"

    @property
    def is_open(self) -> bool:
        return self.written.enabled and not self._gone

    def learn(self, written: WrittenEndpoint, now: float) -> "ServedEndpoint":
        """Apply a new row; returns this endpoint, or a new one if the URL has changed."""
        if written.url != self.written.url:
            other = ServedEndpoint(written, now)
            other._counts = self._counts
            return other
        before, self.written = self.written, written
        if written.secrets != before.secrets:
            self._signer = self._make_signer()
        was_failing, self._since = self._since is not None, self._failing_since(now)
        self._told_success = self._succeeded_at(now)
        first = self._first_failure
        if written.enabled != before.enabled:
            self._forget()
        elif (was_failing and self._since is None) or (
            first is not None and self._told_success > first
        ):
            self._first_failure = None  # another worker had a success: count failures from 0
        return self

    # ------------------------------------------------------------------------------- deliveries

    def sign(self, body: bytes, message_id: str, now: float) -> dict[str, str]:
        """Raises SettingsError if no secret can sign."""
        if self._signer is None:
            raise SettingsError(self.trouble)
        return self._signer.sign(body, message_id, now)

    def succeeded(self, status: int, now: float) -> None:
        self.status, self.reason = status, ""
        self._success_status = status
        self._last_success, self._first_failure = now, None
        self._counts["succeeded"] += 1

    def failed(self, status: int | None, reason: str, now: float) -> None:
        self.status, self.reason = status, reason
        self._last_failure = now
        self._counts["failed"] += 1
        if self._first_failure is None:
            self._first_failure = now

    def is_gone(self, status: int, reason: str, now: float) -> None:
        self.failed(status, reason, now)
        self._gone = True

    def counts(self) -> list[tuple[Ending, int]]:
        found = [(ending, self._counts[ending]) for ending in ENDINGS]
        self._counts.clear()
        return found

    # -------------------------------------------------------------------- changes to the table

    def unwritten(self, now: float) -> News | None:
        after = self.written.disable_after
        news: News | None = None
        if not self.written.enabled:
            pass
        elif self._gone:
            news = "gone"
        elif self._since is not None:
            if max(self._last_success, self._told_success) > self._since:
                news = "recovered"
            elif self._last_failure - self._since >= after:
                news = "failures"
        elif self._first_failure is not None:
            if now - self._first_failure >= min(_STEADY_SECONDS, after / 10):
                news = "failing"
        elif self._last_success - self._noted >= _SUCCESS_SECONDS:
            news = "succeeded"
        return news

    @property
    def is_noted(self) -> bool:
        return self._last_success <= self._noted_success

    @property
    def last_success(self) -> float:
        return self._last_success

    def noted(self, at: float) -> None:
        self._noted_success = max(self._noted_success, at)

    def is_watched(self, now: float) -> bool:
        """Whether a change must be written, now or soon, even if no delivery ends."""
        waits = self._first_failure is not None and self._since is None and self.written.enabled
        return waits or self.unwritten(now) is not None

    def wrote(self, news: News, now: float) -> None:
        if news in ("succeeded", "recovered"):
            self._noted = now
        elif news == "failing" and self._first_failure is not None:
            self._wrote_since = self._first_failure

    def failed_for(self, now: float) -> float:
        """Seconds since the first failure after the last success in this worker."""
        return 0.0 if self._first_failure is None else now - self._first_failure

    def success(self, now: float) -> tuple[int, float]:
        """The status of this worker's last success, and its age in seconds."""
        return self._success_status, now - self._last_success

    def recovered_by(self, now: float) -> tuple[int | None, float]:
        """Like `success`, for the success that ended the failures; None: it is in the table."""
        if self._since is not None and self._last_success > self._since:
            return self.success(now)
        return None, now - self._told_success

    def failing_for(self, now: float) -> float:
        """Seconds since the failures began; 0 without failures."""
        return 0.0 if self._since is None else now - self._since

    def _forget(self) -> None:
        self._gone, self._first_failure = False, None
        self._last_success = self._last_failure = -inf

    def _failing_since(self, now: float) -> float | None:
        if self.written.failing is None:
            self._wrote_since = -inf
            return None
        return max(now - self.written.failing, self._wrote_since)

    def _succeeded_at(self, now: float) -> float:
        return -inf if self.written.succeeded is None else now - self.written.succeeded

    def _make_signer(self) -> StandardWebhooksVerifier | None:
        keys = [Key(str(place), text.encode()) for place, text in enumerate(self.written.secrets)]
        self.trouble = ""
        try:
            return StandardWebhooksVerifier(keys, 0.0, {})
        except SettingsError as error:
            self.trouble = (
                f"webhooks for the endpoint {self.written.name!r} cannot be signed: {error}"
            )
            return None
