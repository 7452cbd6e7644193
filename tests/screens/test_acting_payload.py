"""Replay with another payload: shown and stored with all digits, and bounded."""

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.screens.confirming import ReadForm, ask, confirm
from tests.screens.reading import Read
from tests.screens.test_acting import audit, fail
from tests.screens.test_batches import send_batch
from tests.screens.visiting import SAME, sign_in, user, visiting
from tests.support import Database

pytestmark = pytest.mark.anyio

PATH = "/act/commands/replay-with?id=1"
EXACT = '{"big": 12345678901234567890123, "one": 1.0, "long": 0.10000000000000000001}'


@pytest.fixture
async def ada(database: Database) -> AsyncIterator[httpx.AsyncClient]:
    users = [user("ada", "admin")]
    async with visiting(database, users=users) as site, site.client() as client:
        await sign_in(client, "ada")
        yield client


async def _dead(database: Database, payload: str) -> None:
    await database.execute(
        "insert into inboxd.commands (type, payload) values ('a.do', $1::text::jsonb)", payload
    )
    await fail(database, "commands")


async def test_numbers_that_no_double_holds_keep_all_digits(
    database: Database, ada: httpx.AsyncClient
) -> None:
    await _dead(database, EXACT)
    asked = await ask(ada, PATH)
    for number in ("12345678901234567890123", "0.10000000000000000001", "1.0"):
        assert number in asked.form.fields["payload"]
    same = await confirm(ada, asked)
    assert "Nothing would change" in Read(same.text).text
    shown = await confirm(ada, asked, payload=EXACT.replace("0123,", "0124,"))
    lines = [line for line in shown.text.splitlines() if line.startswith(("<del>", "<ins>"))]
    assert [line[:5] for line in lines] == ["<del>", "<ins>"]
    assert "12345678901234567890123" in lines[0]
    assert "12345678901234567890124" in lines[1]
    form = ReadForm(shown.text)
    done = await ada.post(form.action, data=form.fields, headers=SAME)
    assert done.status_code == 303
    stored = await database.fetchval("select payload::text from inboxd.commands")
    assert stored == EXACT.replace("0123,", "0124,")


async def test_a_payload_that_the_database_refuses_is_asked_for_again(
    database: Database, ada: httpx.AsyncClient
) -> None:
    await _dead(database, "{}")
    asked = await ask(ada, PATH)
    for typed, told in (
        ('{"n": 1,}', "not valid JSON"),
        (r'{"n": "\u0000"}', "the database refuses it"),
        (r'{"n": "\ud800"}', "the database refuses it"),
        ('{"n": 1e131000, "m": [' + ", ".join(["1e131000"] * 3) + "]}", "more than 256 kB"),
    ):
        refused = await confirm(ada, asked, payload=typed)
        assert (refused.status_code, told in refused.text) == (400, True), typed
        assert ReadForm(refused.text).fields["payload"].strip() == typed
    assert await audit(database) == []


async def test_the_form_shows_the_consequences(database: Database, ada: httpx.AsyncClient) -> None:
    await send_batch(database, "mails", 1)
    await database.execute(
        "select inboxd.send_after(command_id, $1) from inboxd.commands where status = 'pending'",
        '{"type": "teacher.told"}',
    )
    member = await database.fetchval(
        "update inboxd.commands set unique_key = 'k', status = 'failed' where status = 'pending'"
        " returning id"
    )
    holder = await database.fetchval(
        "insert into inboxd.commands (type, unique_key) select type, 'k' from inboxd.commands"
        " where status = 'failed' returning id"
    )
    asked = (await ask(ada, f"/act/commands/replay-with?id={member}")).text
    assert "heals if this succeeds and nothing else in it failed: mails." in asked
    assert "are released when it succeeds: 1." in asked
    assert f"{member} cannot be replayed yet: command {holder}" in asked


async def test_a_payload_that_is_too_large_for_a_form_is_for_the_command_line(
    database: Database, ada: httpx.AsyncClient
) -> None:
    await _dead(database, '"' + "x" * 300_000 + '"')
    refused = await ada.get(PATH)
    assert (refused.status_code, "more than 256 kB" in refused.text) == (409, True)
    assert "inboxd commands replay-with 1 @payload.json" in refused.text
    assert "xxxx" not in refused.text
    assert "--" not in Read(refused.text).text
    await database.execute("update inboxd.commands set payload = '{}'")
    asked = await ask(ada, PATH)
    typed = await confirm(ada, asked, payload='"' + "x" * 300_000 + '"')
    assert (typed.status_code, "more than 256 kB" in typed.text) == (413, True)
    assert "xxxx" not in typed.text
    deep = "[" * 600 + "]" * 600  # indented, it is longer than the form's limit
    shown = await confirm(ada, asked, payload=deep)
    assert f"<ins>+ {deep}</ins>" in shown.text
