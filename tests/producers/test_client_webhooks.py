"""`inboxd.client` sends webhooks on every kind of connection."""

from datetime import UTC, datetime
from typing import Any

import pytest

from inboxd.client import Inbox, NewWebhook
from inboxd.errors import PayloadError, UsageError
from tests.producers.conftest import Producer, settled
from tests.support import Database
from tests.support.endpoints import add, deliveries

pytestmark = pytest.mark.anyio

inbox = Inbox()
THEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


async def test_a_webhook_is_written_with_the_producers_rows(
    producer: Producer, database: Database
) -> None:
    await add(database, "one", "user.*", ordered=True)
    await add(database, "two", "order.*")
    sent = await settled(
        inbox.send_webhook(
            producer.connection, "user.created", {"é": 1}, ordering_key="k", occurred_at=THEN
        )
    )
    assert await deliveries(database) == []
    await settled(producer.commit())
    (row,) = await deliveries(database)
    (receipt,) = sent
    assert (receipt.endpoint, receipt.duplicate) == ("one", False)
    assert (receipt.id, receipt.command_id) == (row["id"], row["command_id"])
    assert row["ordering_key"] == "k"
    assert row["payload"] == {
        "endpoint": "one",
        "id": receipt.message_id,
        "type": "user.created",
        "timestamp": "2026-01-02T03:04:05.000000Z",
        "data": {"é": 1},
    }


async def test_many_webhooks_are_sent_at_once(producer: Producer, database: Database) -> None:
    await add(database, "one", "user.*")
    webhooks = [
        NewWebhook("user.created", {"n": n}, message_id=f"m{n % 1500}") for n in range(1600)
    ]
    sent = await settled(inbox.send_webhooks(producer.connection, webhooks))
    await settled(producer.commit())
    assert [receipt.message_id for receipt in sent] == [each.message_id for each in webhooks]
    assert [receipt.duplicate for receipt in sent] == [n >= 1500 for n in range(1600)]
    assert len(await deliveries(database)) == 1500


@pytest.mark.parametrize(
    ("webhook", "problem"),
    [
        (NewWebhook(""), "webhook 1: type has 0 bytes"),
        (NewWebhook("a.b", message_id="a.b"), "webhook 1: message_id must be printable ASCII"),
        (NewWebhook("a.b", occurred_at=datetime(2026, 1, 1)), "occurred_at has no time zone"),  # noqa: DTZ001
        (NewWebhook("a.b", ordering_key=""), "webhook 1: ordering_key has 0 bytes"),
        ({"type": "a.b"}, "webhook 1 is a dict"),
    ],
)
def test_bad_webhooks_are_refused(webhook: Any, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        inbox.send_webhooks(_Refuses(), [NewWebhook("a.b"), webhook])  # type: ignore[call-overload]


def test_a_payload_that_is_not_json_is_refused() -> None:
    with pytest.raises(PayloadError, match=r"webhook 1, type 'a\.b'"):
        inbox.send_webhooks(  # type: ignore[call-overload]
            _Refuses(), [NewWebhook("a.b"), NewWebhook("a.b", {"at": object()})]
        )


class _Refuses:
    """Looks like a connection of psycopg, and runs no statement."""

    def cursor(self, **_: Any) -> Any:
        raise AssertionError


_Refuses.__module__, _Refuses.__qualname__ = "psycopg", "Connection"
_Refuses.__name__ = "Connection"
