"""The run of one command: an attempt, the judgement of its end, and the write of it.

The handler's effects, the rows that it sent and its settlement commit together, in the command's
own transaction if the handler used one (promise 2); after a lost lease nothing is written (promise
3). Known limit: effects outside the database happen at least once (`ctx.idempotency_key`). *See:*
`runners`, before it; `attempts`, `judge` and `settler`, after it.
"""

from collections.abc import Callable, Mapping
from functools import partial
from time import monotonic

from inboxd.api.records import CommandHandler
from inboxd.commands.attempts import CommandAttempts
from inboxd.commands.ended import EndedCommand, RunEnd
from inboxd.commands.judge import CommandJudge
from inboxd.commands.key_turns import KeyTurns
from inboxd.commands.settler import Settler
from inboxd.engine.execution import Task
from inboxd.engine.outcomes import is_ours
from inboxd.errors import LeaseLost
from inboxd.store.handler_connection import OwnTransaction
from inboxd.store.pools import Pool
from inboxd.store.rows import ClaimedCommand
from inboxd.telemetry.logs import bound, get_logger

_log = get_logger(__name__)


class CommandRun:
    def __init__(
        self,
        commands: Mapping[str, CommandHandler],
        attempts: CommandAttempts,
        judge: CommandJudge,
        settler: Settler,
        turns: KeyTurns,
        handler_pool: Pool,
        timeout: float,
    ) -> None:
        """timeout: of handlers that have none of their own, in seconds."""
        self._commands = commands
        self._attempts = attempts
        self._judge = judge
        self._settler = settler
        self._turns = turns
        self._handler_pool = handler_pool
        self._timeout = timeout

    async def run(self, task: Task, row: ClaimedCommand, on_wait: Callable[[], None]) -> RunEnd:
        handler = self._commands[row["type"]]
        limit = handler.timeout or self._timeout
        extend = partial(self._attempts.extend, row["id"])
        own = OwnTransaction(self._handler_pool, limit, extend)
        turn = self._turns.of(row)
        started = monotonic()
        ended: EndedCommand | None = None
        with bound(
            command_id=row["command_id"], correlation_id=row["correlation_id"] or row["command_id"]
        ):
            try:
                ended = await self._attempts.make(task, handler, row, own, limit, on_wait, turn)
                return await self._settler.settle(ended, own)
            except LeaseLost as error:
                _log.warning(
                    "lease lost; nothing was written",
                    type=row["type"],
                    id=row["id"],
                    reason=str(error),
                )
                return "unsuccessful"
            except BaseException as error:
                if is_ours(error):
                    raise
                seconds, settling = monotonic() - started, ended is not None
                ended = self._judge.end_of(row, error, own, seconds, settling=settling)
                await own.end()
                if turn is not None and own.starved:
                    await turn.give_back()
                return await self._settler.settle(ended)
            finally:
                await own.end()
