"""Points that depend on the exact order: shuffled deliveries, failures, two workers."""

import random
from collections import Counter
from collections.abc import Callable

import orjson
import pytest

from inboxd.store.plugin_migrations import migrate
from rewards import plugin
from tests.support import Database, StartWorker, eventually
from tests.support.rows import settings_of

pytestmark = pytest.mark.anyio

CHANGES: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "purchase.completed": ("amount", plugin.after_purchase),
    "purchase.refunded": ("amount", plugin.after_refund),
    "bonus.granted": ("percent", plugin.after_bonus),
}


def deliveries(users: int, each: int) -> tuple[list[tuple[str, str]], dict[int, int], Counter[int]]:
    """Events as (type, payload), shuffled; the users' balances, and how often each reaches gold."""
    chance = random.Random(14)
    order = [user for user in range(users) for _ in range(each)]
    chance.shuffle(order)
    balances = dict.fromkeys(range(users), 0)
    gold: Counter[int] = Counter()
    sent = []
    for user in order:
        type_ = chance.choice(list(CHANGES))
        value = chance.randint(1, 30) if type_ == "bonus.granted" else chance.randint(1, 600)
        field, change = CHANGES[type_]
        sent.append((type_, orjson.dumps({"user_id": user, field: value}).decode()))
        before, balances[user] = balances[user], change(balances[user], value)
        gold[user] += before < plugin.GOLD <= balances[user]
    return sent, balances, gold


def test_the_order_matters() -> None:
    assert plugin.after_refund(plugin.after_purchase(0, 50), 100) == 0
    assert plugin.after_purchase(plugin.after_refund(0, 100), 50) == 50


@pytest.mark.parametrize(
    ("users", "each"),
    [(300, 5), pytest.param(1000, 20, marks=[pytest.mark.long, pytest.mark.soak])],
)
async def test_every_balance_comes_out_exact(
    database: Database, start_worker: StartWorker, users: int, each: int
) -> None:
    await migrate(settings_of(database), ["rewards"])
    config = {"worker": {"plugins": ["rewards"], "lease": "2s", "heartbeat_interval": "300ms"}}
    fleet = [await start_worker(config), await start_worker(config)]
    # Some users have no account yet: their events fail, and their later ones wait.
    await _open_accounts(database, users, "n % 20 > 0")
    sent, balances, gold = deliveries(users, each)
    half = len(sent) // 2
    await _emit(database, sent[:half])
    await _applied(database, half // 4)
    fleet[0].kill()
    await _emit(database, sent[half:])
    await start_worker(config)
    await _open_accounts(database, users, "n % 20 = 0")
    await _applied(database, len(sent))
    rows = await database.fetch("select user_id, points, events from rewards.accounts")
    assert {row["user_id"]: row["points"] for row in rows} == balances
    assert {row["events"] for row in rows} == {each}

    async def is_settled() -> bool:
        return not await database.fetchval("select count(*) from inboxd.events")

    await eventually(is_settled)
    letters = await database.fetch("select user_id from rewards.letters")
    assert Counter(row["user_id"] for row in letters) == gold
    assert len(letters) > 0


async def _open_accounts(database: Database, users: int, which: str) -> None:
    await database.execute(
        "insert into rewards.accounts"
        f" select n from generate_series(0, $1::int - 1) n where {which}",
        users,
    )


async def _emit(database: Database, sent: list[tuple[str, str]]) -> None:
    await database.execute(
        "insert into inboxd.events (type, payload) select type, payload::jsonb"
        " from unnest($1::text[], $2::text[]) with ordinality as t(type, payload, n) order by n",
        [type_ for type_, _ in sent],
        [payload for _, payload in sent],
    )


async def _applied(database: Database, count: int) -> None:
    """Wait until at least this many events are applied."""

    async def have() -> bool:
        done = await database.fetchval("select sum(events) from rewards.accounts")
        return bool(done >= count)

    await eventually(have, within=90)
