"""A webhook that takes the database too long delays only its own sender.

The insert of an event with one key takes an hour here, whatever time limit the server has.
"""

from pathlib import Path

import anyio
import pytest

from inboxd.inbound.spool.folder import folders
from inboxd.inbound.spool.inspection import set_apart
from tests.receiver.spooled import apart, drained, marks
from tests.support import Database, eventually
from tests.support.receiver import StartReceiver
from tests.support.sender import Provider
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

_POISON = "slow"
# The time limit of a receipt alone, which is half a minute by default.
_CONFIG = {"database": {"statement_timeout": "3s"}}


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.fixture
async def slow(inbox: Database) -> None:
    """Makes the insert of an event with the key take an hour."""
    await inbox.execute(
        "create function slow() returns trigger language plpgsql as $$ begin"
        " perform pg_sleep(3600); return new; end $$;"
        "create trigger slow before insert on inboxd.events for each row"
        f" when (new.ordering_key = '{_POISON}') execute function slow()"
    )


async def _stored(inbox: Database) -> set[tuple[str, int]]:
    rows = await inbox.fetch(
        "select payload ->> 'match', (payload ->> 'number')::int from inboxd.events"
    )
    return {(row[0], row[1]) for row in rows}


@pytest.mark.usefixtures("slow")
async def test_a_slow_webhook_is_set_apart_and_its_source_goes_on(
    inbox: Database, start_receiver: StartReceiver, spool: Path
) -> None:
    receiver = await start_receiver(
        spool={"after": "2s"}, http={"answer_within": "10s"}, config=_CONFIG
    )
    provider = receiver.provider()
    assert (await provider.offer("before")).accepted
    assert (await provider.offer(_POISON)).accepted, "it waits in the spool"
    assert marks(spool)
    for key in "abc":
        assert (await provider.offer(key)).accepted
    await drained(spool)
    assert (await provider.offer("after")).accepted
    await drained(spool)
    with safety():
        assert await _stored(inbox) == {(key, 1) for key in ("before", "a", "b", "c", "after")}
        assert apart(spool) == 1
        [item] = [each for folder in folders(spool) for each in set_apart(folder)]
    assert "takes too long" in item.reason
    assert "the database answers again" not in receiver.output(), "it was never away"
    receiver.holds()
    provider.close()


@pytest.mark.usefixtures("slow")
async def test_a_slow_webhook_without_a_spool_is_the_only_one_refused(
    inbox: Database, start_receiver: StartReceiver
) -> None:
    receiver = await start_receiver(http={"answer_within": "6s", "connections": 2})
    provider = receiver.provider()
    refused: list[int] = []

    async def send_poison() -> None:
        answer = await provider.send(provider.entry(_POISON))
        assert answer is not None
        refused.append(answer.status)

    async with anyio.create_task_group() as group:
        group.start_soon(send_poison)
        await eventually(lambda: _sleeps(inbox))
        for number in range(20):
            assert (await provider.offer(f"key-{number}")).accepted
    assert refused == [503]
    with safety():
        assert await _stored(inbox) == {(f"key-{number}", 1) for number in range(20)}
    receiver.holds()
    provider.close()


async def test_an_array_beyond_its_bound_is_a_dead_letter_at_once(
    inbox: Database, start_receiver: StartReceiver
) -> None:
    receiver = await start_receiver(source={"items": ""})
    provider: Provider = receiver.provider(items=1_001)
    assert (await provider.offer("many")).accepted
    [row] = await inbox.fetch("select status, errors::text as errors from inboxd.events")
    assert row["status"] == "failed"
    assert "more than 1000 items" in row["errors"]
    receiver.holds()
    provider.close()


async def _sleeps(inbox: Database) -> bool:
    found = "select exists (select from pg_stat_activity where wait_event = 'PgSleep')"
    return bool(await inbox.fetchval(found))
