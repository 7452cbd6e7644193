"""Failures at COMMIT, after every statement has succeeded: one row fails, the others commit."""

import pytest

from tests.daemon.inbox import Inbox, Kind
from tests.support import Database, StartWorker
from tests.support.rows import effects, emit, send
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

# Deferred to the commit of the settlement: no savepoint and no statement sees it earlier.
REFUSE = """
create function refuse() returns trigger language plpgsql as
$$ begin raise exception 'at commit' using errcode = '23514'; end $$;
create constraint trigger refuse after insert on inboxd.{0}s_history deferrable initially deferred
for each row when (new.type like 'test.%' and (new.payload ->> 'n')::int = 7
    and new.payload ? 'poison') execute function refuse()
"""


@pytest.mark.parametrize(
    ("kind", "type_"),
    [
        ("event", "test.ledger"),
        pytest.param("command", "test.ledger", id="command, settled with COMMIT in one round trip"),
        pytest.param("command", "test.wait", id="command, settled with others"),
    ],
)
async def test_a_constraint_that_fails_at_commit_fails_one_row(
    ledger: Database, start_worker: StartWorker, kind: Kind, type_: str
) -> None:
    await ledger.execute(REFUSE.format(kind))
    inbox = Inbox(ledger)
    write = emit if kind == "event" else send
    async with ledger.connect() as producer, producer.transaction():
        good = await write(producer, 20, type_)
        mixed = await write(producer, 10, type_, poison=True)
        good += await write(producer, 20, type_)
    bad = mixed.pop(6)
    await start_worker({"types": {type_: {"retry": {"attempts": 2}}}})
    row = await inbox.dead(kind, bad)
    await inbox.succeeded(kind, *good, *mixed)
    assert row["attempts"] == 2
    assert "at commit" in row["errors"]
    assert row["crashes"] == 0
    seen = await effects(ledger, kind)
    if type_ == "test.ledger":
        with safety():
            assert seen == dict.fromkeys([*good, *mixed], 1)


async def test_an_event_that_spoils_its_page_is_found_under_a_backlog(
    ledger: Database, start_worker: StartWorker
) -> None:
    """The pages beside it commit, which must not undo the halving."""
    await ledger.execute(REFUSE.format("event"))
    inbox = Inbox(ledger)
    async with ledger.connect() as producer, producer.transaction():
        mixed = await emit(producer, 50, "test.noop", poison=True)
        bad = mixed.pop(6)
        await emit(producer, 20_000, "test.noop")
    worker = await start_worker(
        {
            # No page ends early on a slow machine.
            "events": {"page_rows": 100, "page_time": "50s"},
            "types": {"test.noop": {"retry": {"attempts": 1}}},
        }
    )
    await inbox.dead("event", bad)
    await inbox.succeeded("event", *mixed)
    # 100, 50, 25, 12, 6, 3, 1; and as many again where a half commits and the size grows.
    assert worker.output().count("page of events did not commit") <= 14
