"""By which retry policy an error of a command is judged: its handler's, with its own attempts.

*See:* `inboxd.engine.judge`, which judges; `run`, `settler`.
"""

from inboxd.engine.judge import Judge
from inboxd.engine.parts import Parts
from inboxd.model.backoff import override
from inboxd.model.outcome import Unsuccessful
from inboxd.store.rows import ClaimedCommand


class CommandJudge:
    """One object for all commands of a worker."""

    def __init__(self, parts: Parts) -> None:
        """Judge by the handlers' rules, and the default of `parts`."""
        self._judge = Judge(parts)
        self._commands = parts.registry.commands
        self._default = parts.policy

    def outcome(self, row: ClaimedCommand, error: BaseException) -> Unsuccessful:
        """What follows from an error, by the command's own rule."""
        handler = self._commands[row["type"]]
        policy = handler.retry or self._default
        if row["max_attempts"] is not None:
            policy = override(policy, {"attempts": row["max_attempts"]})
        return self._judge.outcome(error, row, handler, policy)
