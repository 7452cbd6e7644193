"""Each number of a page that is a link leads to exactly the rows that it counts."""

import re
from functools import partial
from html import unescape
from typing import Any

import httpx
import pytest

from inboxd.admin.screens import addresses
from inboxd.admin.screens.pages.type_slices import type_slices
from tests.screens.reading import document, read
from tests.screens.test_batches import send_batch
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


_SETTLE = """
with gone as (delete from inboxd.commands where id = $1 returning *)
insert into inboxd.commands_history (id, command_id, queue, type, schema_version, payload, priority,
    status, attempts, crashes, fence, run_at, cancel_requested, origin_kind, created_at, updated_at,
    finished_at, awaited, batch_id)
select id, command_id, queue, type, 1, payload, 0, $2, 1, 0, 1, run_at, $3, 'batch', created_at,
    now(), now(), false, batch_id from gone
"""


async def test_numbers_of_a_batch_lead_to_its_members(
    screens: httpx.AsyncClient, database: Database
) -> None:
    """A dismissed member counts as cancelled, a replayed one as its new row."""
    batch = await send_batch(database, "mails", 6)
    rows = await database.fetch("select id from inboxd.commands where batch_id = $1", batch)
    ids = sorted(row["id"] for row in rows)
    await database.execute(
        "update inboxd.commands set status = 'failed', attempts = 1 where id = any($1)", ids[:3]
    )
    await database.execute(_SETTLE, ids[0], "dismissed", False)
    new = await database.fetchval(
        "select new_id from inboxd.replay_commands($1, 'me', null)", ids[1:2]
    )
    await database.execute(_SETTLE, ids[3], "cancelled", True)
    await database.execute(_SETTLE, ids[4], "cancelled", False)
    await database.execute("select inboxd.fold_batch($1)", batch)
    page = await read(screens, f"/batches/{batch}")
    for end, query, members in (
        ("failed", "status=failed", [ids[2]]),
        ("cancelled", "status=cancelled&status=dismissed", [ids[0], ids[3]]),
        ("skipped", "status=skipped", [ids[4]]),
        (None, "status=pending", [ids[5], new]),
    ):
        path = f"/batches/{batch}?{query}"
        if end:
            assert f"{end} {len(members)} " in page.text
            assert f"{path}#members" in page.links
        section = (await screens.get(path)).text.partition('id="members"')[2]
        assert set(re.findall(r'href="/commands/(\d+)"', section)) == set(map(str, members)), query


async def test_numbers_of_workers_lead_to_running_commands(
    screens: httpx.AsyncClient, database: Database
) -> None:
    """An event in flight is pending, so no list has those."""
    ((worker,),) = await database.fetch(
        "insert into inboxd.workers (id, name, host, pid, version, events, commands, queues,"
        " declares, in_flight, events_in_flight) values (gen_random_uuid(), 'w', '', 1, '', '{}',"
        " '{}', '{}', '', 5, 3) returning id"
    )
    await database.execute(
        "insert into inboxd.commands (type, queue) values ('mail', 'email'), ('mail', 'email')"
    )
    await database.execute(
        "update inboxd.commands set status = 'running', fence = 1, worker_id = $1", worker
    )
    assert list((await _lists_agree(screens, "/workers")).values()) == [2]
    assert "Events in flight 3" in (await read(screens, "/workers")).text


async def test_numbers_of_a_failure_group_do_not_lead_to_other_groups(
    screens: httpx.AsyncClient, database: Database
) -> None:
    await database.execute(
        "insert into inboxd.commands (type, queue, status, attempts, fingerprint, errors)"
        " select 'mail', 'email', 'failed', 1, f, '[{\"error\": \"no answer\"}]'"
        " from unnest('{aaaaaaaaaaaa,bbbbbbbbbbbb,null}'::text[]) f"
    )
    for group in ("aaaaaaaaaaaa", "-"):
        assert not await _lists_agree(screens, f"/failures/{group}")
    unnamed = await read(screens, "/failures/-")
    assert "/commands?status=failed&type=mail" in unnamed.links


def test_the_slice_of_other_types_leads_nowhere() -> None:
    """No filter selects all types but the most common ones."""
    types = [(f"type {n}", n) for n in range(9, 0, -1)]
    titles = {type_: type_ for type_, _ in types}
    found = type_slices(types, titles, partial(addresses.with_query, "/events", []))
    assert [each["rows"] is None for each in found["types"]] == [False] * 7 + [True]
    assert (found["types"][-1]["count"], found["slices"][-1].href) == (3, None)
