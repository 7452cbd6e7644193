"""Streams of brokers are reset from the screens: with their consequences, and once a form."""

from collections.abc import AsyncIterator
from typing import Any, Final

import httpx
import pytest

from tests.screens.confirming import act, ask, confirm
from tests.screens.reading import Read
from tests.screens.test_acting import audit
from tests.screens.visiting import Visited, sign_in, user, visiting
from tests.support import Database

pytestmark = pytest.mark.anyio

PATH: Final = "/act/stream/reset?source=bets&stream=BETS"
SECTIONS: Final[dict[str, Any]] = {
    "brokers": {
        "main": {"kind": "nats", "servers": ["127.0.0.1:1"]},
        "rabbit": {"kind": "rabbitmq", "servers": ["127.0.0.1:1"]},
    },
    "inbound": {
        "messages": {
            "bets": {"broker": "main", "nats_stream": "BETS"},
            "queue": {"broker": "rabbit", "rabbitmq_queue": "q"},
        }
    },
}


@pytest.fixture
async def site(database: Database) -> AsyncIterator[Visited]:
    await database.execute(
        "insert into inboxd.stream_positions (source, stream, position, identity, reader) values"
        " ('bets', 'BETS', 7, 'i', gen_random_uuid()), ('queue', 'q', null, '', null)"
    )
    users = [user("olga", "operator"), user("rita", "reader")]
    async with visiting(database, users=users, sections=SECTIONS) as site:
        yield site


@pytest.fixture
async def olga(site: Visited) -> AsyncIterator[httpx.AsyncClient]:
    async with site.client() as client:
        await sign_in(client, "olga")
        yield client


async def _stream(database: Database) -> tuple[object, ...]:
    (row,) = await database.fetch(
        "select position, begins, fence, reader from inboxd.stream_positions where source = 'bets'"
    )
    return tuple(row)


@pytest.mark.parametrize(
    ("typed", "told", "to", "position", "begins"),
    [
        ({"to": "oldest"}, "continues with the oldest message.", "oldest", None, "oldest"),
        ({"to": "newest"}, "continues with new messages only.", "newest", None, "newest"),
        ({"to": "position", "position": "41"}, "continues after 41.", "41", 41, None),
    ],
)
async def test_stream_is_reset_after_its_consequences_are_shown(
    database: Database,
    olga: httpx.AsyncClient,
    typed: dict[str, str],
    told: str,
    to: str,
    position: int | None,
    begins: str | None,
) -> None:
    page = Read((await olga.get("/sources")).text)
    links = [each for each in page.links if each.startswith("/act/stream/")]
    assert links == [PATH], "a RabbitMQ queue has no positions"
    asked = await ask(olga, PATH)
    assert "Messages are stored up to position 7." in asked.text
    assert "become events once more" in asked.text
    assert "inboxd messages reset bets BETS --to oldest" in asked.text
    assert await act(olga, PATH, reason="made anew", **typed) == f"Reset: BETS of bets {told}"
    assert await _stream(database) == (position, begins, 2, None)
    assert await audit(database) == [
        ("user olga", f"reset to {to}", "stream bets BETS", "made anew", 1)
    ]


async def test_stream_that_a_colleague_has_reset_meanwhile_is_not_reset_again(
    database: Database, site: Visited, olga: httpx.AsyncClient
) -> None:
    """A worker reads the stream again, so its row does not show the first reset."""
    late = await ask(olga, PATH)
    async with site.client() as other:
        await sign_in(other, "olga")
        await act(other, PATH, to="newest")
    await database.execute(
        "update inboxd.stream_positions set position = 7, begins = null, identity = 'i',"
        " reader = gen_random_uuid(), fence = 3 where source = 'bets'"
    )
    refused = await confirm(olga, late)
    assert (refused.status_code, "has done this meanwhile" in refused.text) == (409, True)
    assert (await _stream(database))[:3] == (7, None, 3)
    assert len(await audit(database)) == 1


async def test_invalid_place_is_asked_for_again_and_unknown_streams_are_named(
    database: Database, site: Visited, olga: httpx.AsyncClient
) -> None:
    asked = await ask(olga, PATH)
    for typed in ({"to": "position"}, {"to": "position", "position": "-1"}, {"to": "latest"}):
        refused = await confirm(olga, asked, **typed)
        assert (refused.status_code, "give oldest, newest" in refused.text) == (400, True), typed
    unknown = await olga.get("/act/stream/reset?source=bets&stream=BET")
    assert (unknown.status_code, "BETS" in unknown.text) == (404, True)
    queue = await olga.get("/act/stream/reset?source=queue&stream=q")
    assert (queue.status_code, "RabbitMQ queue" in queue.text) == (400, True)
    async with site.client() as rita:
        await sign_in(rita, "rita")
        assert "/act/" not in (await rita.get("/sources")).text
        assert (await rita.get(PATH)).status_code == 403
    assert (await _stream(database))[:3] == (7, None, 1)
    assert await audit(database) == []
