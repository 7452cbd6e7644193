"""The handlers by themselves, without PostgreSQL: `pip install pytest`, then `pytest tests`."""

import base64
import hashlib
import hmac
from unittest.mock import AsyncMock

import pytest

from inboxd import Connection
from inboxd.testing import SentCommand, run_command, run_event
from parcels.plugin import handlers
from parcels.stage.carrier import Carrier
from parcels.stage.shop import is_genuine

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_an_order_is_booked_then_noted_or_refused() -> None:
    paid = {"order_id": 7, "address": "Rua das Flores 12"}
    result = await run_event(
        handlers, "order.paid", paid, connection=AsyncMock(spec=Connection), tenant="lamps"
    )

    [workflow] = result.workflows
    assert {name: dict(step.after) for name, step in workflow.steps.items()} == {
        "book": {},
        "note": {"book": "succeeded"},
        "refuse": {"book": "failed"},
    }
    asked = workflow.steps["book"].what
    assert isinstance(asked, SentCommand)
    assert (asked.type, asked.queue) == ("http.request", "http.carrier")
    assert asked.payload["path"] == "/parcels/7"


async def test_the_carriers_answer_becomes_an_event() -> None:
    answer = {"status": 201, "body": '{"number": "CP1000"}'}
    connection = AsyncMock(spec=Connection)
    result = await run_command(
        handlers, "parcels.note", {"order_id": 7}, connection=connection, results={"book": answer}
    )

    [event] = result.events
    assert (event.type, event.payload) == ("parcel.booked", {"order_id": 7, "number": "CP1000"})
    assert event.draft.ordering_key == "order 7"


def test_the_carrier_books_one_parcel_for_a_key() -> None:
    carrier = Carrier(busy_every=2)
    statuses = [carrier.answer("/parcels/7", "k", {"to": "Rua 12"})[0] for _ in range(5)]
    assert statuses == [201, 503, 201, 503, 201]
    assert len(carrier.booked) == 1
    assert Carrier(busy_every=0).answer("/parcels/7", "k", {"to": "nowhere"})[0] == 422


def test_a_shop_accepts_only_messages_signed_for_it() -> None:
    key, body = b"a secret of the test's, 32 bytes", b'{"type": "parcel.booked"}'
    secret = "whsec_" + base64.b64encode(key).decode()
    mac = base64.b64encode(hmac.digest(key, b"m1.1000." + body, hashlib.sha256)).decode()
    headers = {"webhook-id": "m1", "webhook-timestamp": "1000", "webhook-signature": f"v1,{mac}"}
    assert is_genuine(secret, headers, body, 1010.0)
    assert not is_genuine(secret, headers, body + b" ", 1010.0)
    assert not is_genuine(secret, headers, body, 2000.0)
