"""Bets on several matches: results at once, twice and in any order, and a worker is killed."""

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import NamedTuple

import httpx
import orjson
import pytest

from inboxd.store.plugin_migrations import migrate
from tests.support import Database, StartWorker, eventually
from tests.support.ports import held_port
from tests.support.receiver import Receiver, port_of
from tests.support.rows import settings_of
from tests.support.sender import standard_webhooks

pytestmark = pytest.mark.anyio

CONFIG = {"worker": {"plugins": ["bets"], "lease": "2s", "heartbeat_interval": "300ms"}}


# Like the source in the example's config.toml, except for name and secret.
SOURCE = {
    "type": "match.result",
    "topics": ["match-results"],
    "dedup_key": "pointer:/providerEventId",
    "ordering_key": "pointer:/matchExternalId",
}
Score = tuple[int, int]


@pytest.fixture
def receiver(database: Database, tmp_path: Path) -> Iterator[Receiver]:
    """The receiver that the provider sends results to."""
    with held_port() as held:
        started = Receiver(tmp_path, database.dsn, port_of(held), http={}, source=SOURCE, config={})
        yield started
        started.kill()


class Bet(NamedTuple):
    """The stake, and for each match the pick and its odds."""

    stake: Decimal
    selections: dict[str, tuple[str, Decimal]]


def drawn(matches: int, bets: int) -> tuple[dict[int, Bet], dict[str, Score]]:
    """Bets of one to four selections, and the final score of each match."""
    chance = random.Random(19)
    names = [f"match-{number}" for number in range(matches)]
    scores = {name: (chance.randint(0, 3), chance.randint(0, 2)) for name in names}
    placed = {}
    for number in range(bets):
        selections = {
            name: (
                # Mostly right picks: otherwise hardly any bet with four selections would be won.
                _outcome(*scores[name]) if chance.random() < 0.8 else chance.choice(PICKS),
                Decimal(chance.randint(101, 900)) / 100,
            )
            for name in chance.sample(names, chance.randint(1, 4))
        }
        placed[number] = Bet(Decimal(chance.randint(100, 9_999)) / 100, selections)
    return placed, scores


PICKS = ("home", "draw", "away")


def _outcome(home: int, away: int) -> str:
    return "draw" if home == away else "home" if home > away else "away"


def due(bets: Mapping[int, Bet], scores: Mapping[str, Score]) -> dict[int, Decimal]:
    """The payout of each bet that is won."""
    won = {}
    for number, bet in bets.items():
        if all(pick == _outcome(*scores[name]) for name, (pick, _) in bet.selections.items()):
            amount = bet.stake
            for _, odds in bet.selections.values():
                amount *= odds
            won[number] = amount.quantize(Decimal("0.01"), ROUND_HALF_UP)
    return won


@pytest.mark.parametrize(
    ("matches", "bets"),
    [(20, 1_500), pytest.param(100, 40_000, marks=[pytest.mark.long, pytest.mark.soak])],
)
async def test_every_bet_is_settled_notified_and_paid_once(
    database: Database, start_worker: StartWorker, receiver: Receiver, matches: int, bets: int
) -> None:
    await migrate(settings_of(database), ["bets"])
    placed, scores = drawn(matches, bets)
    won = due(placed, scores)
    await _place(database, placed)
    await receiver.ready()
    fleet = [await start_worker(CONFIG), await start_worker(CONFIG)]

    names = list(scores)
    random.Random(4).shuffle(names)
    half = len(names) // 2
    await _send(receiver, names[:half], scores)
    await _send(receiver, names[:half], scores)  # all of them again: their dedup keys are known
    await _some_are_settled(database)
    fleet[0].kill()
    await _send(receiver, names[half:], scores)
    await start_worker(CONFIG)

    async def is_done() -> bool:
        left = (
            "select (select count(*) from inboxd.events where topic = 'match-results')"
            " + (select count(*) from inboxd.commands)"
        )
        return not await database.fetchval(left)

    await eventually(is_done, within=90)
    found = await database.fetch("select bet_id, status, payout from betting.bets")
    assert {row["bet_id"]: row["status"] for row in found} == {
        number: "won" if number in won else "lost" for number in placed
    }
    assert {row["bet_id"]: row["payout"] for row in found if row["payout"] is not None} == won
    assert 0.2 < len(won) / len(placed) < 0.8, "both won and lost bets are tested"
    assert await _commands(database, "bets.notify_customer") == sorted(placed)
    assert await _commands(database, "bets.pay_out") == sorted(won)
    paid = await database.fetch("select bet_id from betting.payments")
    assert sorted(row["bet_id"] for row in paid) == sorted(won)


async def _commands(database: Database, type_: str) -> list[int]:
    """The bet ids of the succeeded commands of a type."""
    rows = await database.fetch(
        "select (payload ->> 'bet_id')::bigint as bet_id from inboxd.commands_history"
        " where type = $1 and status = 'succeeded' order by 1",
        type_,
    )
    return [row["bet_id"] for row in rows]


async def _place(database: Database, bets: Mapping[int, Bet]) -> None:
    columns = defaultdict(list)
    for number, bet in bets.items():
        for name, (pick, odds) in bet.selections.items():
            for column, value in zip("abcd", (number, name, pick, odds), strict=True):
                columns[column].append(value)
    await database.execute(
        "insert into betting.bets (bet_id, customer_id, stake)"
        " select id, id % 100, stake from unnest($1::bigint[], $2::numeric[]) as t(id, stake)",
        list(bets),
        [bet.stake for bet in bets.values()],
    )
    await database.execute(
        "insert into betting.selections (bet_id, match_id, pick, odds)"
        " select * from unnest($1::bigint[], $2::text[], $3::text[], $4::numeric[])",
        *(columns[column] for column in "abcd"),
    )


async def _send(receiver: Receiver, names: list[str], scores: Mapping[str, Score]) -> None:
    """Send each result in a signed request of its own, as the provider does."""
    sign = standard_webhooks()
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{receiver.port}") as client:
        for name in names:
            body = orjson.dumps(
                {
                    "matchExternalId": name,
                    "homeScore": scores[name][0],
                    "awayScore": scores[name][1],
                    "status": "FINISHED",
                    "providerEventId": f"result-{name}",
                }
            )
            answer = await client.post("/in/bets", content=body, headers=sign(body, f"msg-{name}"))
            assert answer.status_code == 202


async def _some_are_settled(database: Database) -> None:
    async def are() -> bool:
        settled = "select exists (select from betting.bets where status <> 'pending')"
        return bool(await database.fetchval(settled))

    await eventually(are)
