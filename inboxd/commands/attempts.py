"""One attempt of a command: its breaker's fallback, or decode and call; every failure is raised.

A rehearsal makes attempts by this, too. *See:* `run`, before it; `inboxd.engine.execution`, after
it.
"""

from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any, cast

import anyio.from_thread

from inboxd.api.context import CommandContext, Results
from inboxd.api.messages import Row
from inboxd.api.payload import decode, decode_event_command
from inboxd.api.progress import Say
from inboxd.api.records import CommandHandler
from inboxd.commands.bodies import CommandBodies
from inboxd.commands.ended import CANCELLED, EndedCommand, Expired, Later, fell_back, succeeded
from inboxd.commands.key_turns import KeyTurn
from inboxd.commands.leases import Expiries
from inboxd.engine import row_log
from inboxd.engine.execution import HandlerStopped, Task
from inboxd.engine.parts import Parts
from inboxd.engine.target_calls import watch
from inboxd.errors import NotFound, Reject
from inboxd.model.lineage import OriginKind
from inboxd.model.outcome import explain
from inboxd.store import batches
from inboxd.store.connections import is_passing
from inboxd.store.handler_connection import OwnTransaction, PageSavepoint
from inboxd.store.pools import Pool, borrow
from inboxd.store.rows import ClaimedCommand
from inboxd.telemetry.logs import get_logger

_handler_log = get_logger("inboxd.handler")


class CommandAttempts:
    def __init__(self, parts: Parts, bodies: CommandBodies, expiries: Expiries, say: Say) -> None:
        self._executions = parts.executions
        self._breakers = parts.breakers
        self._registry = parts.registry
        self._policy = parts.policy
        self._fallbacks = parts.metrics.breaker_fallbacks
        self._bodies = bodies
        self._expiries = expiries
        self._say = say
        self._results: Results = partial(step_result, parts.pool)
        self._blocking_results: Results = partial(anyio.from_thread.run, self._results)
        # The reason why no handler may begin. Commands whose payload is being read cannot be
        # stopped otherwise.
        self._halted: str | None = None

    async def make(
        self,
        task: Task,
        handler: CommandHandler,
        row: ClaimedCommand,
        part: OwnTransaction | PageSavepoint,
        seconds: float,
        on_wait: Callable[[], None],
        turn: KeyTurn | None = None,
    ) -> EndedCommand:
        """seconds: the handler's time limit. turn: taken just before the handler begins."""
        self._refuse_expired(row)
        if found := self._breakers.falls_back(row["queue"], handler.type, row["id"]):
            return await self._fall_back(row, *found, on_wait)
        started = monotonic()
        if row["late"]:
            raise Reject("its deadline passed before it could start")
        raw = row["payload"] if row["body_id"] is None else await self._body(row, on_wait)
        payload = _decoded(handler, row, "null" if raw is None else raw)
        self._refuse_expired(row)  # before the turn, which it would spend
        if turn is not None and self._halted is None:
            await turn.take()
        if self._halted is not None:
            raise HandlerStopped(self._halted)
        if row_log.logs_starts():
            row_log.command_starts(row)
        results = self._blocking_results if handler.executor == "thread" else self._results
        context = CommandContext(
            row, part.lender(handler.executor), self._registry, _handler_log, results, self._say
        )
        calls = watch(self._breakers, handler, row["id"], row["queue"])
        try:
            value = await self._executions.run(
                task, "command", row["id"], handler, payload, context, seconds, on_wait
            )
        except BaseException as error:
            for call in calls:
                call.failed(error, handler.retry or self._policy)
            raise
        finally:
            context.close()
            part.close()
        for call in calls:
            call.succeeded()
        part.check()
        return succeeded(row, context, value, monotonic() - started)

    def _refuse_expired(self, row: ClaimedCommand) -> None:
        if self._expiries.has_passed(row):
            raise Expired

    async def _fall_back(
        self, row: ClaimedCommand, type_: str, breaker: str, on_wait: Callable[[], None]
    ) -> EndedCommand:
        """The end of a command whose breaker is open: its fallback is sent instead."""
        raw = row["payload"] if row["body_id"] is None else await self._body(row, on_wait)
        self._fallbacks.labels(breaker).inc()
        route = self._registry.resolve(type_)
        return fell_back(row, route, breaker, "null" if raw is None else raw)

    async def _body(self, row: ClaimedCommand, on_wait: Callable[[], None]) -> str | None:
        if not self._bodies.is_read(row):
            on_wait()
        try:
            return await self._bodies.take(row)
        except Exception as error:
            if not is_passing(error):
                raise
            raise Later(f"its payload could not be read: {explain(error).error}") from error

    # ------------------------------------------------------------------- limits and stops

    def extend(self, row_id: int, seconds: float) -> None:
        """Extend a running handler's time by its wait for the daemon."""
        limit = self._executions.limits.get(("command", row_id))
        if limit is not None:
            limit.extend(seconds)

    def stop_all(self, reason: str) -> None:
        """Stop all running commands, and let none begin until `go_on`."""
        self._halted = reason
        for (kind, _), limit in list(self._executions.limits.items()):
            if kind == "command":
                limit.stop(HandlerStopped(reason))

    def go_on(self) -> None:
        self._halted = None

    def cancel(self, ids: frozenset[int]) -> None:
        for row_id in ids:
            limit = self._executions.limits.get(("command", row_id))
            if limit is not None:
                limit.stop(HandlerStopped(CANCELLED))


def _decoded(handler: CommandHandler, row: ClaimedCommand, raw: str) -> object:
    if handler.event_type is not None:
        return decode_event_command(handler, raw, row["schema_version"], row["attempts"])
    return decode(handler, raw, row["schema_version"])


async def step_result(pool: Pool, row: Row, step: str, /) -> Any:
    """The committed result of a step in the workflow of a command, or which it follows."""
    command = cast("ClaimedCommand", row)
    batch = command["batch_id"]
    if batch is None and command["origin_kind"] == OriginKind.BATCH:
        batch = command["origin_id"]
    if batch is None:
        raise NotFound(f"there is no result of {step!r}: this command is in no workflow")
    async with borrow(pool) as session:
        return await batches.step_result(session, batch, step)
