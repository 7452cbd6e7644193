"""Results of earlier steps, for handlers that ask for them.

Owns the reading behind `ctx.result`. Promises that a handler that does not ask pays nothing, and
that what it reads has committed. Known limit: each reading is a statement of its own.
"""

from typing import Any, cast

import anyio.from_thread

from inboxd.api.messages import Row
from inboxd.errors import NotFound
from inboxd.model.lineage import OriginKind
from inboxd.store import batches
from inboxd.store.pools import Pool, borrow
from inboxd.store.rows import ClaimedCommand
from inboxd.store.statements import Statements


class StepResults:
    """Reads on connections of the daemon's pool."""

    def __init__(self, pool: Pool, sql: Statements) -> None:
        """Read from `pool`."""
        self._pool = pool
        self._sql = sql

    async def read(self, row: Row, step: str, /) -> Any:
        """The result of a step of the workflow that a command belongs to, or follows."""
        command = cast("ClaimedCommand", row)
        batch = command["batch_id"]
        if batch is None and command["origin_kind"] == OriginKind.BATCH:
            batch = command["origin_id"]
        if batch is None:
            raise NotFound(f"there is no result of {step!r}: this command is in no workflow")
        async with borrow(self._pool) as connection:
            return await batches.step_result(connection, self._sql, batch, step)


class BlockingStepResults:
    """The same for handlers that run in a thread."""

    def __init__(self, results: StepResults) -> None:
        """Read through `results`, on the event loop."""
        self._results = results

    def read(self, row: Row, step: str, /) -> Any:
        """As `StepResults.read`, blocking the thread."""
        return anyio.from_thread.run(self._results.read, row, step)
