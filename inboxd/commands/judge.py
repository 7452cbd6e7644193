"""What follows from an error of a command: another attempt, a wait, or a dead letter.

Owns the choice of the retry policy, and what metrics and the log tell of a failure. Promises that
whatever a command fails with is judged by its own rule. *See:* `run`, `settler`.
"""

from datetime import timedelta

from inboxd.engine import telling
from inboxd.engine.outcomes import site_of
from inboxd.engine.parts import Parts
from inboxd.model.backoff import Policy, override
from inboxd.model.outcome import Unsuccessful, decide, failure_of
from inboxd.store.rows import ClaimedCommand


class Judge:
    """One object for all commands of a worker."""

    def __init__(self, parts: Parts) -> None:
        """Judge by the handlers' rules, and the default of `parts`."""
        self._registry = parts.registry
        self._default = parts.policy
        self._tally = parts.metrics.tally

    def outcome(self, row: ClaimedCommand, error: BaseException) -> Unsuccessful:
        """What follows from an error, by the command's own rule."""
        site = site_of(row, self._registry.commands.get(row["type"]))
        age = timedelta(seconds=row["age"])
        outcome = decide(error, self._policy(row), row["attempts"], age, site=site)
        self._tally.fail("command", row["type"], failure_of(outcome, error).kind)
        telling.did_not_succeed("command", row, outcome, error, site.package)
        return outcome

    def _policy(self, row: ClaimedCommand) -> Policy:
        policy = self._registry.commands[row["type"]].retry or self._default
        if row["max_attempts"] is None:
            return policy
        return override(policy, {"attempts": row["max_attempts"]})
