"""Results, notifications and payments, published by the example's own settings to a real NATS."""

import json
import tomllib
from collections import defaultdict
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import orjson
import pytest

from inboxd.store.plugin_migrations import migrate
from tests.support import Config, Database, StartWorker, eventually
from tests.support.nats import NatsServer, jetstream, nats_server
from tests.support.ports import held_port
from tests.support.receiver import port_of
from tests.support.rows import settings_of
from tests.support.sender import standard_webhooks
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

EXAMPLE = Path(__file__).parents[2] / "examples/bets"
MATCHES = 6
BETS = 20
SCORES = ((0, 0), (1, 0), (2, 0))  # the scores of each match; the last one is final
ATTRIBUTES = {"specversion": "1.0", "source": "/bets", "schemaversion": "1"}


class Published(NamedTuple):
    """One message of the stream, with its headers and its body."""

    subject: str
    headers: Mapping[str, str]
    body: dict[str, Any]


async def test_results_notifications_and_payments_are_published_once_and_in_order(
    database: Database, start_worker: StartWorker
) -> None:
    await migrate(settings_of(database), ["bets"])
    await _place(database)
    with held_port() as held, nats_server() as server:
        async with jetstream(server) as js:
            await js.add_stream(name="BETS", subjects=["matches.>", "customers.>", "payments.>"])
        config = _published_to(server, port_of(held))
        await start_worker(config)
        await _send(port_of(held), config["inbound"]["webhooks"]["results"]["keys"][0]["secret"])

        async def is_done() -> bool:
            left = (
                "select exists (select from inboxd.events) or exists (select from inboxd.commands)"
            )
            paid = "select count(*) = $1 from betting.payments"
            return await database.fetchval(paid, BETS) and not await database.fetchval(left)

        await eventually(is_done)
        published = await _read(server)
    with safety():
        assert {each.subject for each in published} == {
            "matches.result.v1",
            "customers.notified.v1",
            "payments.paid.v1",
        }
        for each in published:
            assert each.subject == f"{each.headers['ce-type']}.v1"
            assert (
                ATTRIBUTES.items()
                <= {name.removeprefix("ce-"): value for name, value in each.headers.items()}.items()
            )
        ids = [each.headers["ce-id"] for each in published]
        assert len(set(ids)) == len(ids) == MATCHES * len(SCORES) + 2 * BETS

        results = defaultdict(list)
        paid = {}
        notified = []
        for _, headers, body in published:
            if headers["ce-type"] == "matches.result":
                assert headers["ce-partitionkey"] == body["match_id"]
                results[body["match_id"]].append((body["home_score"], body["away_score"]))
                continue
            assert headers["ce-partitionkey"] == str(body["bet_id"])
            if headers["ce-type"] == "customers.notified":
                notified.append((body["bet_id"], body["customer_id"], body["status"]))
            else:
                paid[body["bet_id"]] = (body["payment_id"], Decimal(body["amount"]))
        assert results == {f"match-{number}": list(SCORES) for number in range(MATCHES)}
        rows = await database.fetch("select bet_id, payment_id, amount from betting.payments")
        assert sorted(notified) == [(bet, bet % 3, "won") for bet in range(1, BETS + 1)]
        assert paid == {row["bet_id"]: (str(row["payment_id"]), row["amount"]) for row in rows}


async def test_events_for_other_services_are_ignored_without_a_relay(
    database: Database, start_worker: StartWorker
) -> None:
    await migrate(settings_of(database), ["bets"])
    config = tomllib.loads((EXAMPLE / "config.toml").read_text())
    await start_worker(
        {
            "worker": {**config["worker"], "unhandled_grace": "500ms"},
            "types": config["types"],
            "maintenance": {"interval": "200ms"},
        }
    )
    types = ("customers.notified", "matches.result", "payments.paid")
    for type_ in types:
        await database.execute("insert into inboxd.events (type) values ($1)", type_)

    async def is_gone() -> bool:
        return not await database.fetchval("select exists (select from inboxd.events)")

    await eventually(is_gone)
    rows = await database.fetch("select status, type from inboxd.events_history order by type")
    with safety():
        assert [tuple(row.values()) for row in rows] == [("dismissed", name) for name in types]


def _published_to(server: NatsServer, port: int) -> Config:
    """The example's settings, with this server and this port."""
    config = tomllib.loads((EXAMPLE / "publishing.toml").read_text())
    for broker in config["brokers"].values():
        broker["servers"] = [server.address]
    config["inbound"]["http"]["port"] = port
    return config


async def _place(database: Database) -> None:
    """Place one bet on each match in turn, all of which will be won."""
    await database.execute(
        "insert into betting.bets (bet_id, customer_id, stake)"
        " select n, n % 3, 10 from generate_series(1, $1::integer) n",
        BETS,
    )
    await database.execute(
        "insert into betting.selections (bet_id, match_id, pick, odds)"
        " select bet_id, 'match-' || bet_id % $1::integer, 'home', 1.5 from betting.bets",
        MATCHES,
    )


async def _send(port: int, secret: str) -> None:
    """Send each score in a signed request of its own, as the provider does."""
    sign = standard_webhooks(secret)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        for home, away in SCORES:
            for number in range(MATCHES):
                body = orjson.dumps(
                    {
                        "matchExternalId": f"match-{number}",
                        "homeScore": home,
                        "awayScore": away,
                        "status": "FINISHED" if (home, away) == SCORES[-1] else "LIVE",
                        "providerEventId": f"{number}-{home}",
                    }
                )
                headers = sign(body, f"msg-{number}-{home}")
                answer = await client.post("/in/results", content=body, headers=headers)
                assert answer.status_code == 202


async def _read(server: NatsServer) -> list[Published]:
    """All messages of the stream, in its order."""
    async with jetstream(server) as js:
        stored = (await js.stream_info("BETS")).state.messages
        consumer = await js.subscribe(">", stream="BETS", ordered_consumer=True)
        messages = [await consumer.next_msg(5) for _ in range(stored)]
    return [Published(each.subject, each.headers or {}, json.loads(each.data)) for each in messages]
