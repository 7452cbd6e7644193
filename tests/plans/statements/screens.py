"""Cases of statements that the screens alone run: trends of failures, acts on a row, batches."""

from datetime import UTC, datetime, timedelta
from typing import Final

from inboxd.store import finding, operations
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable
from tests.plans.filling import Known
from tests.plans.statements.case import Case, run

_TODAY: Final = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _trends(table: HotTable) -> Case:
    parts = [("f1", "test.noop"), ("f1", "none")]
    return lambda session, _: operations.failure_trends(session, table, parts, 100)


async def _acts(session: Session, _: Known) -> object:
    await finding.plan_looks(session, walk=True)
    day = (_TODAY, _TODAY + timedelta(days=1))
    return await operations.acts_on_row(session, "events", 1, *day, look=50, limit=20)


SCREENS: dict[str, tuple[Case, tuple[str, ...]]] = {
    "acts_on_row": (_acts, ("audit_at",)),
    "failure_trends_commands": (_trends("commands"), ("commands_failures",)),
    "failure_trends_events": (_trends("events"), ("events_failures",)),
    "match_batches": (run("match_batches", *(None,) * 8, 100), ("batches_pkey",)),
    "recent_batches": (
        run("recent_batches", "batch", None, None, _TODAY, "minute", 100),
        ("batches_pkey",),
    ),
}
