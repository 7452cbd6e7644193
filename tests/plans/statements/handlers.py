"""Cases on a handler's connection: settlements with a result."""

from inboxd.store import (
    commands,
)
from inboxd.store.session import Session
from inboxd.store.settlements import Settlement
from tests.plans.filling import WORKER, Known
from tests.plans.statements.case import Case


def _settle_one(result: str | None) -> Case:
    """Claim a command and settle it as its own transaction does."""

    async def case(session: Session, _: Known) -> None:
        row = await session.connection.fetchval(
            "insert into inboxd.commands (queue, type, status, worker_id, fence)"
            " values ('q', 'held', 'running', $1, 1) returning id",
            WORKER,
        )
        ended = Settlement(row, 1, "succeeded", 0.1, result)
        await commands.settle_own(session, WORKER, ended, "SELECT")

    return case


HANDLER: dict[str, tuple[Case, tuple[str, ...]]] = {
    "settle_command": (_settle_one(None), ("commands_pkey",)),
    "settle_with_result": (_settle_one('{"n": 1}'), ("commands_pkey",)),
}
