"""`inboxd erase` on receipts of webhooks, also on held ones."""

import time
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from pydantic import SecretStr

from inboxd.inbound.keys import AuthenticRequest
from inboxd.inbound.sources import CompiledSource
from inboxd.inbound.uuids import Uuids
from inboxd.settings import WebhookSource
from inboxd.settings.inbound import SenderKey
from tests.cli.conftest import Cli
from tests.inbound.calls import Knock
from tests.support import Database
from tests.support.receipts import receipt, receive, received, release
from tests.support.rows import SQL, daemon_session

Sql = Callable[..., list[Any]]
USER = ("--entity-type", "user", "--entity-id", "42")


def about(entity: str, **given: Any) -> Any:
    return received(entity_type="user", entity_id=entity, **given)


def left(sql: Sql) -> list[tuple[bool, bool, bool]]:
    """Return whether each receipt has a body, headers and an address; the oldest first."""
    rows = sql(
        "select body is not null, headers is not null, address is not null"
        " from inboxd.receipts order by receipt_id"
    )
    return [tuple(row) for row in rows]


def test_receipts_of_erased_events_are_erased(cli: Cli, sql: Sql, database: Database) -> None:
    page = [receipt(about("42"), about("43")), receipt(about("43"))]
    anyio.run(receive, database, *page)
    sql(
        "insert into inboxd.kept_receipts select * from inboxd.receipts where receipt_id = $1",
        page[0].receipt_id,
    )
    ids = [row["id"] for row in sql("select id from inboxd.events")]

    async def settle() -> None:
        async with daemon_session(database) as session:
            await session.execute(SQL["settle_events"], ids, [0.1] * 3, None)

    anyio.run(settle)
    assert cli("erase", *USER, "--yes").code == 0
    assert left(sql) == [(False,) * 3, (True,) * 3]
    assert sql("select body, headers, address from inboxd.kept_receipts") == [(None,) * 3]


@pytest.mark.parametrize("subject", [USER, ("--tenant", "acme")])
def test_broken_webhooks_are_erased(
    cli: Cli, sql: Sql, database: Database, subject: tuple[str, ...]
) -> None:
    """Tenant and entity of a broken webhook are in its body only."""
    settings = WebhookSource(
        scheme="github",
        type="user.named",
        ordering_key="pointer:/order",
        tenant="pointer:/tenant",
        entity_type="user",
        entity_id="pointer:/user",
        keys=(SenderKey(id="1", secret=SecretStr("canary")),),
    )
    body = b'{"tenant": "acme", "user": 42, "name": "Ada Lovelace"}'
    request = AuthenticRequest({}, body, "192.0.2.1", "1", None, time.time_ns())
    source = CompiledSource("psp", settings, Knock())
    anyio.run(receive, database, source.receipt(Uuids(), request))
    assert sql("select status from inboxd.events") == [("failed",)], "the webhook is broken"
    assert cli("erase", *subject, "--yes", "--json").json["left"] == 0
    assert left(sql) == [(False,) * 3]
    assert sql("select * from inboxd.events") == []
    (row,) = sql("select payload from inboxd.events_history")
    assert "Ada" not in str(row["payload"])
    assert sql("select count(*) from inboxd.bodies") == [(0,)]


@pytest.mark.parametrize("subject", [USER, ("--tenant", "acme")])
def test_held_events_are_refused_and_then_erased(
    cli: Cli, sql: Sql, database: Database, subject: tuple[str, ...]
) -> None:
    page = [
        receipt(about("42", tenant="acme"), about("43", payload={"stays": 1}), hold=True),
        receipt(received(), hold=True),
    ]
    anyio.run(receive, database, *page)
    assert cli("erase", *subject, "--dry-run", "--json").json["would_erase"]["held_events"] == 1
    refused = cli("erase", *subject, "--yes")
    assert (refused.code, left(sql)) == (1, [(True,) * 3] * 2)
    assert "1 matching row not settled yet" in refused.err
    erased = cli("erase", *subject, "--yes", "--unsettled", "--json").json
    assert (erased["erased"]["held_events"], erased["left"]) == (1, 0)
    assert left(sql) == [(False,) * 3, (True,) * 3]
    anyio.run(release, database)
    found = sql("select entity_id, payload from inboxd.events order by id")
    assert [tuple(row) for row in found] == [("43", '{"stays": 1}'), (None, "{}")]
    (line,) = sql("select action, count from inboxd.audit")
    assert tuple(line) == ("erase", 1)
