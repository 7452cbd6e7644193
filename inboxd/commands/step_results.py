"""Results of earlier steps, for handlers that ask for them.

A result which a handler reads has committed; each reading is a statement of its own.
"""

from typing import Any, cast

from inboxd.api.messages import Row
from inboxd.engine.parts import Parts
from inboxd.errors import NotFound
from inboxd.model.lineage import OriginKind
from inboxd.store import batches
from inboxd.store.pools import borrow
from inboxd.store.rows import ClaimedCommand


async def step_result(parts: Parts, row: Row, step: str, /) -> Any:
    """The result of a step in the workflow to which a command belongs, or which it follows."""
    command = cast("ClaimedCommand", row)
    batch = command["batch_id"]
    if batch is None and command["origin_kind"] == OriginKind.BATCH:
        batch = command["origin_id"]
    if batch is None:
        raise NotFound(f"there is no result of {step!r}: this command is in no workflow")
    async with borrow(parts.pool) as session:
        return await batches.step_result(session, batch, step)
