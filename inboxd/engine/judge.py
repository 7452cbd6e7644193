"""Judges an error of a row: another attempt, a wait, or a dead letter."""

from datetime import timedelta

from inboxd.api.records import Handler
from inboxd.engine import row_log
from inboxd.engine.outcomes import kind_of, site_of
from inboxd.engine.parts import Parts
from inboxd.engine.versions import FOR_ANOTHER, LeftToPeer, VersionExemptions
from inboxd.model.backoff import Policy
from inboxd.model.outcome import Unsuccessful, decide, failure_of
from inboxd.store.rows import ClaimedRow


class Judge:
    def __init__(self, parts: Parts) -> None:
        self._tally = parts.metrics.tally
        self._versions = VersionExemptions(parts)

    def outcome(
        self, error: BaseException, row: ClaimedRow, handler: Handler | None, policy: Policy
    ) -> Unsuccessful:
        """Judge an error by a policy; LeftToPeer: another worker should take the row first."""
        left = self._versions.are_anothers(error, row["id"])
        if left:
            error = FOR_ANOTHER
        age, site = timedelta(seconds=row["age"]), site_of(row, handler)
        outcome = decide(error, policy, row["attempts"], age, site=site)
        self._tally.fail(kind_of(row), row["type"], failure_of(outcome, error).kind)
        row_log.did_not_succeed(row, outcome, error, site.package)
        return LeftToPeer.of(outcome) if left else outcome
