"""Each number of a page that is a link leads to exactly the rows that it counts."""

import re
from html import unescape
from typing import Any

import httpx
import pytest

from tests.screens.reading import document, read
from tests.support import Database

pytestmark = pytest.mark.anyio

_NUMBER = re.compile(
    r'<a (?:class="failed" )?href="(/(?:events|commands|batches|workflows)\?[^"]*)">([\d,]+)</a>'
)


async def _lists_agree(screens: httpx.AsyncClient, path: str) -> dict[str, int]:
    """Open the list behind each number of a page; return the numbers by the lists' addresses."""
    answer = await screens.get(path, headers={"accept": "text/html"})
    assert answer.status_code == 200, answer.text
    numbers = {
        unescape(to): int(number.replace(",", "")) for to, number in _NUMBER.findall(answer.text)
    }
    for to, number in numbers.items():
        if number or "by=" not in to:
            found: Any = await document(screens, f"{to}&limit=100")
            rows = found[to.partition("?")[0].strip("/")]
            assert len(rows) == number, f"{path} says {number} and leads to {to}"
    return numbers


async def _write_lanes(database: Database) -> None:
    """Commands of one type in two queues, some with keys, and events of one type in two topics."""
    await database.execute(
        "insert into inboxd.commands (type, queue, ordering_key) values"
        " ('mail', 'email', null), ('mail', 'email', 'a'), ('mail', 'email', 'a'),"
        " ('mail', 'email', 'b'), ('mail', 'slow', null), ('mail', 'slow', 'c')"
    )
    await database.execute(
        "insert into inboxd.commands (type, queue, status, attempts, errors) select 'mail', queue,"
        " 'failed', 1, '[{\"error\": \"no answer\"}]' from unnest('{email,slow,slow}'::text[])"
        " queue"
    )
    await database.execute(
        "insert into inboxd.events (type, topic, status, attempts) values"
        " ('paid', 'orders', 'pending', 0), ('paid', 'bills', 'pending', 0),"
        " ('paid', 'bills', 'failed', 1)"
    )


async def test_numbers_of_lanes_lead_to_their_rows(
    screens: httpx.AsyncClient, database: Database
) -> None:
    """A command with an ordering key is pending for a queue, though its status is waiting."""
    await _write_lanes(database)
    for path, wanted in (
        ("/queues", [4, 1, 2, 2]),
        ("/queues/email", [4, 0, 1]),
        ("/topics", [1, 1, 1]),
        ("/topics/bills", [1, 1]),
        ("/types", [3, 1]),
        ("/", [4, 1, 2, 2, 1, 1, 1]),
    ):
        numbers = await _lists_agree(screens, path)
        assert sorted(numbers.values()) == sorted(wanted), (path, numbers)
    buttons = (await read(screens, "/types/command/mail")).links
    assert "/commands?status=pending&status=waiting&type=mail" in buttons
