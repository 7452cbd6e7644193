"""Judges errors of commands: by the handler's retry policy, with the command's own attempts."""

from inboxd.engine.judge import Judge
from inboxd.engine.parts import Parts
from inboxd.model.backoff import override
from inboxd.model.outcome import Unsuccessful
from inboxd.store.rows import ClaimedCommand


class CommandJudge:
    def __init__(self, parts: Parts) -> None:
        self._judge = Judge(parts)
        self._commands = parts.registry.commands
        self._default = parts.policy

    def outcome(self, row: ClaimedCommand, error: BaseException) -> Unsuccessful:
        handler = self._commands[row["type"]]
        policy = handler.retry or self._default
        if row["max_attempts"] is not None:
            policy = override(policy, {"attempts": row["max_attempts"]})
        return self._judge.outcome(error, row, handler, policy)
