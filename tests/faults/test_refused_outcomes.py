"""The database refuses a worker's write to an event: it is set aside, all others go on.

The triggers stand for any cause of a refusal: a number out of range, a user's own constraint.
"""

import pytest

from inboxd_testplugin import chunked
from tests.daemon.inbox import KINDS, TABLES, Inbox, Kind, errors_of
from tests.support import Config, Database, StartWorker, eventually
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

# More than a page has, one after the other.
_OTHERS = 10
_QUICK: Config = {"types": {"test.misbehave": {"retry": {"base": "50ms", "attempts": 32767}}}}


@pytest.fixture
async def inbox(database: Database) -> Inbox:
    """A database of the test's own, with the tables of the handlers."""
    await database.execute(TABLES)
    return Inbox(database)


async def _go_on(inbox: Inbox, kind: Kind) -> None:
    """Write rows one after the other; wait until each is handled."""
    for _ in range(_OTHERS):
        row_id = await inbox.write(kind, "test.ledger", {})
        await inbox.succeeded(kind, row_id)
        with safety():
            assert len(await inbox.notes(row_id)) == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_the_last_attempt_that_fits_into_its_column_is_counted(
    inbox: Inbox, start_worker: StartWorker, kind: Kind
) -> None:
    bad = await inbox.write(kind, "test.misbehave", {"how": "raise"}, attempts=32_767)
    good = await inbox.write(kind, "test.ledger", {}, attempts=32_767)
    worker = await start_worker(_QUICK)
    await inbox.succeeded(kind, good)
    row = await inbox.dead(kind, bad)
    await _go_on(inbox, kind)
    assert row["attempts"] == 32_767
    assert len(errors_of(row)) == 1
    assert "starts again" not in worker.output()


_REFUSES = """
create function refuse() returns trigger language plpgsql as
    $$ begin raise 'not this one' using errcode = 'check_violation', constraint = 'ours'; end $$;
create trigger refuse before update on inboxd.events for each row
    when (old.type = '{type}' {and_when}) execute function refuse()
"""


async def test_a_refused_requeue_makes_a_dead_letter(
    inbox: Inbox, start_worker: StartWorker
) -> None:
    await inbox.database.execute(
        _REFUSES.format(type="test.misbehave", and_when="and new.status = 'pending'")
    )
    worker = await start_worker(_QUICK)
    bad = await inbox.write("event", "test.misbehave", {"how": "raise"})
    await _go_on(inbox, "event")
    row = await inbox.dead("event", bad)
    assert "not this one" in errors_of(row)[-1]["error"]
    assert "starts again" not in worker.output()


async def test_an_event_whose_every_write_is_refused_is_skipped(
    inbox: Inbox, start_worker: StartWorker
) -> None:
    await inbox.database.execute(_REFUSES.format(type="test.misbehave", and_when=""))
    worker = await start_worker(_QUICK)
    bad = await inbox.write("event", "test.misbehave", {"how": "raise"})
    await worker.logged("an event is set aside")
    await _go_on(inbox, "event")
    left = await inbox.hot("event", bad)
    with safety():
        assert left is not None
        assert (left["status"], left["attempts"]) == ("pending", 0)
    assert "starts again" not in worker.output()


async def test_a_chunk_whose_requeue_is_refused_becomes_dead_letters(
    inbox: Inbox, start_worker: StartWorker
) -> None:
    """Its line goes on behind it."""
    await inbox.database.execute(chunked.TABLES)
    refused = "and new.attempts > old.attempts and new.status <> 'failed'"
    await inbox.database.execute(_REFUSES.format(type="chunked.whole", and_when=refused))
    await start_worker()
    await eventually(
        lambda: inbox.database.fetchval("select count(*) from inboxd.topics where name = 'whole'")
    )
    payloads = [{}, {}, {"poison": True}, {}, {}, {}, {}, {}]
    ids = await inbox.write_many("event", "chunked.whole", payloads, ordering_key="one")
    for row_id in ids[:4]:
        row = await inbox.dead("event", row_id)
        assert "not this one" in errors_of(row)[-1]["error"]
    await inbox.succeeded("event", *ids[4:])
