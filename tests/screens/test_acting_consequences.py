"""Consequences of an action for other rows: each row is counted once, up to a limit."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.screens.confirming import ask
from tests.screens.test_batches import NOOP, send_batch
from tests.screens.visiting import sign_in, user, visiting
from tests.support import Database

pytestmark = pytest.mark.anyio

# 1 and 2 are dead letters of one key; 3 to 5 are behind them in its line; 6 to 8 wait for both.
FILLED = """
insert into inboxd.commands (type, ordering_key, status, line_at)
values ('a.do', 'k', 'failed', now()), ('a.do', 'k', 'failed', now());
insert into inboxd.commands (type, ordering_key, status)
select 'a.do', 'k', 'waiting' from generate_series(1, 3);
insert into inboxd.commands (type, status, needs)
select 'a.late', 'waiting', 2 from generate_series(1, 3);
insert into inboxd.dependencies (needs, waiting, condition)
select first.command_id, late.command_id, 'succeeded'
  from inboxd.commands first, inboxd.commands late
 where first.status = 'failed' and late.type = 'a.late';
"""
BEHIND = "behind it in the line of its ordering key, which continue after it"


@asynccontextmanager
async def _ada(database: Database, **queue: Any) -> AsyncIterator[httpx.AsyncClient]:
    sections = {"queues": {"default": queue}}
    async with (
        visiting(database, users=[user("ada", "admin")], sections=sections) as site,
        site.client() as client,
    ):
        await sign_in(client, "ada")
        yield client


async def test_a_row_that_waits_for_several_is_counted_once(database: Database) -> None:
    await database.execute(FILLED)
    async with _ada(database) as ada:
        for ids in ("id=1", "id=1&id=2"):
            told = (await ask(ada, f"/act/commands/dismiss?{ids}")).text
            assert "Rows that wait for it: 3. Those" in told
            assert f"{BEHIND}: 3." in told
        own = (await ask(ada, "/act/commands/cancel?id=6&id=7&id=3")).text
        assert "Rows that" not in own, "no row waits for these three"
        assert BEHIND not in own, "row 3 waits for its key and does not hold it"


async def test_a_count_that_is_cut_says_at_least(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inboxd.operations.consequences.COUNTED_TO", 2)
    await database.execute(FILLED)
    async with _ada(database) as ada:
        for action, waiting in (("dismiss", "wait for it"), ("replay", "when it succeeds")):
            told = (await ask(ada, f"/act/commands/{action}?id=1")).text
            assert f"{waiting}: at least 2." in told
            assert f"{BEHIND}: at least 2." in told


@pytest.mark.parametrize("queue", [{"on_failure": "skip"}, {"key_concurrency": 2}])
async def test_no_row_is_behind_a_dead_letter_that_holds_no_key(
    database: Database, queue: dict[str, Any]
) -> None:
    await database.execute(FILLED)
    async with _ada(database, **queue) as ada:
        assert BEHIND not in (await ask(ada, "/act/commands/dismiss?id=1")).text
    await database.execute("update inboxd.commands set status = 'pending' where id = 1")
    async with _ada(database, **queue) as ada:
        told = (await ask(ada, "/act/commands/cancel?id=1")).text
        assert (BEHIND in told) == ("on_failure" in queue)


async def test_rows_beyond_the_named_ones_are_counted(database: Database) -> None:
    await database.execute(
        "insert into inboxd.commands (type, unique_key, status)"
        " select 'a.do', n::text, 'failed' from generate_series(1, 12) n;"
        "insert into inboxd.commands (type, unique_key)"
        " select 'a.do', n::text from generate_series(1, 12) n"
    )
    async with _ada(database) as ada:
        ids = "&".join(f"id={each}" for each in range(1, 13))
        told = (await ask(ada, f"/act/commands/replay?{ids}")).text
    assert told.count("holds its unique key") == 10
    assert "2 more cannot be replayed yet for the same reason." in told


async def test_all_that_match_are_shown_with_their_filter_spread_and_consequences(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send_batch(database, "mails", 2)
    await database.execute(
        "select inboxd.send_after((select min(command_id::text)::uuid from inboxd.commands"
        """ where batch_id is not null), '{"type": "late"}');"""
        "update inboxd.commands set status = 'failed', tenant = 'acme', unique_key = id::text"
        " where batch_id is not null;"
        "insert into inboxd.commands (type, unique_key) select type, unique_key"
        " from inboxd.commands where batch_id is not null;"
    )
    await database.execute(FILLED)
    async with _ada(database) as ada:
        replay = await ask(ada, "/act/commands/replay-all?since=2020-01-01T00:00")
        assert "Rows that match: since: 2020-01-01" in replay.text
        assert "nothing else in them failed: mails." in replay.text
        assert "are released when they succeed: 4." in replay.text
        assert "Rows whose unique key another command holds now: 2." in replay.text
        assert "So is a row whose batch was cancelled" in replay.text
        assert "in its own place in the line" in replay.text
        assert f"By type and tenant a.do no tenant 2 {NOOP['type']} acme 2" in replay.text
        assert "of the first" not in replay.text
        dismiss = (await ask(ada, "/act/commands/dismiss-all")).text
        assert "Rows that match: all rows whose status allows it" in dismiss
        assert "Batches that count these rows as cancelled: mails." in dismiss
        assert "Rows that wait for these rows: 4. Those that need" in dismiss
        assert "lines of their ordering keys, which continue after them: 3." in dismiss
        assert "unique key" not in dismiss
        monkeypatch.setattr("inboxd.operations.bulk_orders.FOLLOWED", 1)
        first = (await ask(ada, "/act/commands/dismiss-all")).text
        assert first.count("of the first 1 rows") == 2
        one = await ask(ada, "/act/commands/replay-all?batch=1")
        assert "Rows that match: batch: 1" in one.text


# 1 blocks a line of three; 4 is a dead letter that has left its line; 5 has no key.
LINE = """
insert into inboxd.events (topic, mode, type, ordering_key, bucket, status, head, position)
values ('points', 'sequential', 'a.b', 'k', 1, 'failed', true, 1),
       ('points', 'sequential', 'a.b', 'k', 1, 'waiting', false, 2),
       ('points', 'sequential', 'a.b', 'k', 1, 'waiting', false, 3),
       ('points', 'sequential', 'a.b', 'k', 1, 'failed', false, null);
insert into inboxd.events (type, status) values ('a.b', 'failed');
"""


async def test_events_behind_a_dead_letter_are_counted(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await database.execute(LINE)
    async with _ada(database) as ada:
        for action in ("replay", "dismiss"):
            assert f"{BEHIND}: 2." in (await ask(ada, f"/act/events/{action}?id=1")).text
            for without in ("id=4", "id=5"):
                assert BEHIND not in (await ask(ada, f"/act/events/{action}?{without}")).text
        monkeypatch.setattr("inboxd.operations.consequences.COUNTED_TO", 1)
        assert f"{BEHIND}: at least 1." in (await ask(ada, "/act/events/dismiss?id=1")).text
