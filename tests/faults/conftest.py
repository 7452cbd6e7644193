"""Fixtures of the tests under faults: a ledger, and settings with which faults take seconds."""

from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from tests.support import Config, Database, eventually
from tests.support.rows import ExactlyOnce, Hasty, create_ledger, effects, unsettled
from tests.support.verdicts import Late, safety

# A death is noticed within 3 to 4 seconds; a frozen page is freed after 2.
HASTY: Config = {
    "database": {"idle_in_transaction_timeout": "2s"},
    "events": {"timeout": "1s"},
    "worker": {"lease": "3s", "heartbeat_interval": "700ms"},
}


@pytest.fixture
def hasty() -> Hasty:
    """`HASTY`, overridden by a test's own sections."""

    def merged(**sections: dict[str, Any]) -> Config:
        return {
            name: {**HASTY.get(name, {}), **sections.get(name, {})}
            for name in {**HASTY, **sections}
        }

    return merged


@pytest.fixture
def ledger(request: pytest.FixtureRequest) -> Database:
    """The test's database (the restartable one, if the test uses it), with a ledger."""
    restartable = "restartable_database" in request.fixturenames
    name = "restartable_database" if restartable else "database"
    database: Database = request.getfixturevalue(name)
    anyio.run(create_ledger, database)
    return database


@pytest.fixture
def exactly_once(ledger: Database) -> ExactlyOnce:
    """Wait until these rows are settled, and assert that each took effect once."""

    async def settled(kind: str, ids: Sequence[int]) -> bool:
        left: int = await ledger.fetchval(
            f"select count(*) from inboxd.{kind}s where id = any($1)", list(ids)
        )
        return left == 0

    async def check(kind: str, ids: Sequence[int]) -> None:
        try:
            await eventually(lambda: settled(kind, ids))
        except AssertionError as error:
            await effects(ledger, kind)  # a repeated effect is worse than a late one
            rows = await unsettled(ledger, f"{kind}s")
            raise Late(f"{len(rows)} rows are left: {rows[:5]}") from error
        seen = await effects(ledger, kind)
        wrong = {row: seen[row] for row in {*ids, *seen} if seen[row] != (row in ids)}
        history = await ledger.fetch(
            f"select status, count(*) from inboxd.{kind}s_history where id = any($1) group by 1",
            list(ids),
        )
        with safety():
            assert not wrong, f"rows without exactly one effect: {wrong}"
            assert [tuple(row) for row in history] == [("succeeded", len(ids))]

    return check
