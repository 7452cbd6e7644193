"""The reason why a row is not running, on its page: a sentence with links, in each language."""

import httpx
import pytest

from tests.screens.reading import Read, read
from tests.support import Database

pytestmark = pytest.mark.anyio


async def test_a_row_that_waits_says_why_with_links(
    screens: httpx.AsyncClient, database: Database
) -> None:
    dead = await database.fetchval(
        "insert into inboxd.commands (queue, type, ordering_key, status, line_at) values"
        " ('email', 'mail.send', 'k', 'failed', now()) returning id"
    )
    id_ = await database.fetchval(
        "insert into inboxd.commands (queue, type, ordering_key) values"
        " ('email', 'mail.send', 'k') returning id"
    )
    await database.execute(
        "insert into inboxd.controls (kind, name, actor, reason) values"
        " ('queue', 'email', 'ana', '<b>down</b>'), ('type', 'mail.send', 'ana', null)"
    )
    page = await read(screens, f"/commands/{id_}")
    assert "Its queue email is paused: by ana, since 20" in page.text
    assert "(<b>down</b>)." in page.text
    assert f"And then: Its ordering key is held by command {dead} , a dead letter" in page.text
    assert {"/queues/email", f"/commands/{dead}", "/types/command/mail.send"} <= set(page.links)
    assert f"inboxd commands why {id_}" in page.text
    assert page.text.index("Its queue email") < page.text.index("Origin")

    found = await screens.get(
        f"/commands/{id_}", headers={"accept": "text/html", "accept-language": "pt-BR"}
    )
    assert "E depois:" in Read(found.text).text

    await database.execute("update inboxd.commands set status = 'failed' where id = $1", id_)
    assert "And then:" not in (await read(screens, f"/commands/{id_}")).text
