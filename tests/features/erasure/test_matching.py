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
from tests.support.rows import daemon_session

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
            await session.execute("settle_events", ids, [0.1] * 3, None)

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


UNREADABLE = b"name=Ada Lovelace&city=London"


def unread(body: bytes = UNREADABLE, source: str = "psp") -> Any:
    """Make the receipt of a body that is not JSON."""
    settings = WebhookSource(
        scheme="github",
        type="user.named",
        keys=(SenderKey(id="1", secret=SecretStr("canary")),),
    )
    request = AuthenticRequest({}, body, "192.0.2.1", "1", None, time.time_ns())
    return CompiledSource(source, settings, Knock()).receipt(Uuids(), request)


def test_receipts_with_a_text_and_their_unread_events_are_erased(
    cli: Cli, sql: Sql, database: Database
) -> None:
    page = [unread(), unread(b"name=Alan Turing"), receipt(about("42"))]
    page[2].body = b'{"by": "Ada Lovelace"}'
    anyio.run(receive, database, *page)
    sql(
        "insert into inboxd.kept_receipts select * from inboxd.receipts where receipt_id = $1",
        page[0].receipt_id,
    )
    matching = ("erase", "--receipts-matching", "Ada Lovelace")
    seen = cli(*matching, "--dry-run", "--json").json["would_erase"]
    ids = [str(page[0].receipt_id), str(page[2].receipt_id)]
    assert (seen["receipts"], seen["unread"]) == (3, 2)
    assert set(seen["first"]) == set(ids)
    assert all(has_body for has_body, _, _ in left(sql)), "nothing was changed"

    done = cli(*matching, "--yes", "--reason", "request 7", "--json").json
    assert done == {"erased": {"receipts": 3, "dead_letters": 1}, "left": 0}
    kept = sql("select receipt_id from inboxd.receipts where body is not null")
    assert [tuple(row) for row in kept] == [(page[1].receipt_id,)]
    assert sorted(left(sql)) == [(False,) * 3, (False,) * 3, (True, False, True)]
    assert sql("select body, headers, address from inboxd.kept_receipts") == [(None,) * 3]
    statuses = sql("select status from inboxd.events order by id")
    assert [tuple(row) for row in statuses] == [("failed",), ("pending",)], "a read event stays"
    (row,) = sql("select status, payload, errors, headers from inboxd.events_history")
    assert row["status"] == "dismissed"
    assert "Ada" not in str(tuple(row))
    assert sql("select count(*) from inboxd.bodies") == [(0,)]
    (line,) = sql("select action, target, count, reason from inboxd.audit")
    assert (line["action"], line["count"], line["reason"]) == ("erase", 3, "request 7")
    assert line["target"].startswith("receipts matching sha256:")

    again = cli(*matching, "--yes")
    assert again.code == 66
    assert "nothing was erased: no webhook's body contains this text" in again.err
    assert cli(*matching, "--yes", "--force").code == 0


def test_dismissed_dead_letters_of_matching_receipts_are_erased(
    cli: Cli, sql: Sql, database: Database
) -> None:
    anyio.run(receive, database, unread())
    ((id_,),) = sql("select id from inboxd.events")
    assert cli("events", "dismiss", id_).code == 0
    typed = cli("erase", "--receipts-matching", "-", "--yes", "--json", stdin="Ada Lovelace\n")
    assert typed.json["erased"] == {"receipts": 1, "dead_letters": 1}
    (row,) = sql("select payload from inboxd.events_history")
    assert row["payload"] is None


def test_receipt_whose_dead_letter_was_replayed_is_left_until_it_has_ended(
    cli: Cli, sql: Sql, database: Database
) -> None:
    anyio.run(receive, database, unread(), unread())
    ((id_,), _) = sql("select id from inboxd.events order by id")
    assert cli("events", "replay", id_).code == 0
    matching = ("erase", "--receipts-matching", "Ada Lovelace", "--yes", "--json")
    first = cli(*matching)
    assert first.code == 1
    assert first.json == {"erased": {"receipts": 1, "dead_letters": 1}, "left": 1}
    sql("update inboxd.events set status = 'failed'")
    assert cli(*matching).json == {"erased": {"receipts": 1, "dead_letters": 1}, "left": 0}


def test_matching_receipts_of_a_paused_source_are_refused(
    cli: Cli, sql: Sql, database: Database
) -> None:
    held = receipt(about("42"), hold=True)
    held.body = UNREADABLE
    anyio.run(receive, database, unread(source="other"), held)
    refused = cli("erase", "--receipts-matching", "Lovelace", "--yes")
    assert refused.code == 1
    assert "1 matching receipt are held" in refused.err
    assert all(has_body for has_body, _, _ in left(sql)), "nothing was changed"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("Ada", "--tenant", "acme"), "--receipts-matching cannot be combined"),
        (("Ada", "--unsettled"), "--receipts-matching cannot be combined"),
        (("a",), "less than 3 bytes"),
        (("   ",), "less than 3 bytes"),
    ],
)
def test_text_that_is_too_short_or_not_alone_is_refused(
    cli: Cli, given: tuple[str, ...], told: str
) -> None:
    refused = cli("erase", "--receipts-matching", *given, "--yes")
    assert (refused.code, refused.out) == (2, "")
    assert told in refused.err
