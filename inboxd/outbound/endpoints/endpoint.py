"""One endpoint of one worker: where its deliveries go, how they are signed, and how that has gone.

Owns what follows from deliveries: when an endpoint is written down as failing, as well again, or is
to be disabled. Promises that only what its present URL answered counts, that a success anywhere
ends the failures before it, whoever writes later, and that a change is made here at once and is
`unwritten` until the table has it. Known limit: a failure is written down once nothing has
succeeded here for some seconds, so what fails and succeeds in turns writes little, and is not
called failing.
*See:* `book`, which has all of them; `inboxd.engine.endpoints`, which writes and reads.
"""

from collections import Counter
from math import inf
from typing import Literal, get_args

from inboxd.errors import SettingsError
from inboxd.model.endpoints import WrittenEndpoint
from inboxd.signatures.contract import Key
from inboxd.signatures.standard_webhooks import StandardWebhooksVerifier

# What is to be written: it fails; it is well again; it took a delivery; it is to be disabled, since
# it failed for too long, or answered 410.
News = Literal["failing", "recovered", "succeeded", "failures", "gone"]

Ending = Literal["succeeded", "failed"]
ENDINGS: tuple[Ending, ...] = get_args(Ending)

# Seconds for which nothing has succeeded when a failure is written down, a tenth of disable_after
# at most; and between two writings of a success.
_STEADY, _OFTEN = 5.0, 60.0


class ServedEndpoint:
    """One endpoint; the time is passed in, in seconds of a monotonic clock."""

    def __init__(self, written: WrittenEndpoint, now: float) -> None:
        """As the table has it; now: when it was asked for that."""
        self.written = written
        # Why it cannot be signed for; empty: it can.
        self.trouble = ""
        self._signer = self._make_signer()
        # The status of the last answer, None without one; and what was wrong.
        self.status: int | None = None
        self.reason = ""
        self._success_status = 0
        # When the newest success here was that the table has.
        self._noted_success = -inf
        # For the metrics: deliveries that ended since they were asked for, by outcome.
        self._counts: Counter[Ending] = Counter()
        self._noted = -inf
        self._gone = False
        self._first_failure: float | None = None
        # Since when it fails, as this worker wrote it down.
        self._wrote_since = -inf
        self._last_success = self._last_failure = -inf
        self._since = self._failing_since(now)
        self._told_success = self._succeeded_at(now)

    @property
    def queue(self) -> str:
        """Where its deliveries wait; the name of its breaker, too."""
        return f"webhooks.{self.written.name}"

    @property
    def is_open(self) -> bool:
        """Whether its deliveries may be claimed."""
        return self.written.enabled and not self._gone

    def learn(self, written: WrittenEndpoint, now: float) -> "ServedEndpoint":
        """The endpoint as the table has it: the same, or another one where its URL changed.

        now: when the table was asked.
        """
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
            self._first_failure = None  # well for another worker: it has to fail here anew
        return self

    # ------------------------------------------------------------------------------- deliveries

    def sign(self, body: bytes, message_id: str, now: float) -> dict[str, str]:
        """The headers by which it knows that a body is ours. Raises SettingsError."""
        if self._signer is None:
            raise SettingsError(self.trouble)
        return self._signer.sign(body, message_id, now)

    def succeeded(self, status: int, now: float) -> None:
        """It took a delivery."""
        self.status, self.reason = status, ""
        self._success_status = status
        self._last_success, self._first_failure = now, None
        self._counts["succeeded"] += 1

    def failed(self, status: int | None, reason: str, now: float) -> None:
        """It did not take a delivery."""
        self.status, self.reason = status, reason
        self._last_failure = now
        self._counts["failed"] += 1
        if self._first_failure is None:
            self._first_failure = now

    def is_gone(self, status: int, reason: str, now: float) -> None:
        """It wants no deliveries any more."""
        self.failed(status, reason, now)
        self._gone = True

    def counts(self) -> list[tuple[Ending, int]]:
        """How many deliveries have ended, and how, since this was asked last."""
        found = [(ending, self._counts[ending]) for ending in ENDINGS]
        self._counts.clear()
        return found

    # --------------------------------------------------------------------------- written down

    def unwritten(self, now: float) -> News | None:
        """What is to be written down now."""
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
            if now - self._first_failure >= min(_STEADY, after / 10):
                news = "failing"
        elif self._last_success - self._noted >= _OFTEN:
            news = "succeeded"
        return news

    @property
    def is_noted(self) -> bool:
        """Whether the table has its last success here."""
        return self._last_success <= self._noted_success

    @property
    def last_success(self) -> float:
        """When it last took a delivery here."""
        return self._last_success

    def noted(self, at: float) -> None:
        """The table has a success of that time."""
        self._noted_success = max(self._noted_success, at)

    def is_watched(self, now: float) -> bool:
        """Whether something is to be written, now or soon, though no delivery ends."""
        waits = self._first_failure is not None and self._since is None and self.written.enabled
        return waits or self.unwritten(now) is not None

    def wrote(self, news: News, now: float) -> None:
        """It is written down, by this worker."""
        if news in ("succeeded", "recovered"):
            self._noted = now
        elif news == "failing" and self._first_failure is not None:
            self._wrote_since = self._first_failure

    def failed_for(self, now: float) -> float:
        """Seconds since the first failure that no success here has followed."""
        return 0.0 if self._first_failure is None else now - self._first_failure

    def success(self, now: float) -> tuple[int, float]:
        """The status of this worker's last success, and how many seconds ago that was."""
        return self._success_status, now - self._last_success

    def recovered_by(self, now: float) -> tuple[int | None, float]:
        """As `success`, of the one that ended the failures; None: the table has its status."""
        if self._since is not None and self._last_success > self._since:
            return self.success(now)
        return None, now - self._told_success

    def failing_for(self, now: float) -> float:
        """Seconds since it began to fail; 0: it does not."""
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
            self.trouble = f"the endpoint {self.written.name!r} cannot be signed for: {error}"
            return None
