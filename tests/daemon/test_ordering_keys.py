"""Ordering keys, and limits over all workers, with whole workers: in order, within limits, fair."""

import itertools
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from inboxd import operations
from tests.support import Config, Database, StartWorker, Worker, eventually, looked_again
from tests.support.locks import lock_awaited
from tests.support.rows import daemon_session, most_in_a_second, unsettled
from tests.support.verdicts import Late, Violation, safety

pytestmark = pytest.mark.anyio

QUICK: Config = {"worker": {"lease": "2s", "heartbeat_interval": "200ms", "crash_limit": 50}}


# Commands that wait for the test's lock wait until its end.
HELD: Config = {"database": {"lock_timeout": "10m", "statement_timeout": "10m"}}


@pytest.fixture
async def lines(database: Database) -> Database:
    """A database with the trail of the handlers."""
    await database.execute("create table trail (position bigserial, key text, n int)")
    return database


@asynccontextmanager
async def held(database: Database) -> AsyncIterator[None]:
    """Lock the trail during the block: each command that writes to it waits."""
    async with database.connect() as connection, connection.transaction():
        await connection.execute("lock table trail in share mode")
        yield


async def steps(database: Database, payloads: Sequence[dict[str, Any]], **columns: object) -> None:
    """Send `test.step` commands in order; `key` in the payload is the ordering key by default."""
    columns = {"queue": "lines", **columns}
    names = "".join(f", {name}" for name in columns)
    values = "".join(f", ${n}" for n in range(2, 2 + len(columns)))
    key = "" if "ordering_key" in columns else ", ordering_key"
    await database.execute(
        f"insert into inboxd.commands (type, payload{names}{key}) "
        f"select 'test.step', p::jsonb{values}{', p::jsonb ->> $$key$$' if key else ''} "
        "from unnest($1::text[]) with ordinality as t(p, n) order by n",
        [json.dumps(each) for each in payloads],
        *columns.values(),
    )


async def ended(database: Database, count: int, within: float = 30) -> None:
    """Wait until at least `count` commands have succeeded."""

    async def have() -> bool:
        done = await database.fetchval(
            "select count(*) from inboxd.commands_history where status = 'succeeded'"
        )
        return bool(done >= count)

    try:
        await eventually(have, within)
    except Late as error:
        left = await unsettled(database, "commands")
        if not left and not await have():
            raise Violation(f"{error}: no unsettled row is left, so commands are lost") from error
        raise Late(f"{error}: {left}") from error


async def trail(database: Database) -> dict[str, list[int]]:
    """The steps of each key, in the order of their commits."""
    found: dict[str, list[int]] = {}
    for row in await database.fetch("select key, n from trail order by position"):
        found.setdefault(row["key"], []).append(row["n"])
    return found


async def spans(database: Database) -> list[tuple[str, float, float]]:
    """Key, begin and end of each command's run."""
    rows = await database.fetch("select payload, result from inboxd.commands_history")
    both = [(json.loads(row["payload"]), json.loads(row["result"])) for row in rows]
    return [(payload.get("key", ""), ran["began"], ran["ended"]) for payload, ran in both]


def most_at_once(ran: Sequence[tuple[str, float, float]]) -> int:
    """The largest number of these runs that overlapped."""
    moves = sorted([(began, 1) for _, began, _ in ran] + [(end, -1) for *_, end in ran])
    return max(itertools.accumulate(step for _, step in moves))


@pytest.mark.parametrize(
    "workers", [2, pytest.param(4, marks=[pytest.mark.long, pytest.mark.soak])]
)
@pytest.mark.parametrize("touch", [True, False], ids=["own transaction", "gathered"])
async def test_order_holds_over_killed_workers_for_commands(
    lines: Database, start_worker: StartWorker, workers: int, touch: bool
) -> None:
    fleet = [await start_worker(QUICK) for _ in range(workers)]
    payloads = [
        {"key": f"k{k}", "n": n, "wait": 0.002, "touch": touch} for n in range(20) for k in range(8)
    ]
    await steps(lines, payloads[:80])
    await steps(lines, payloads[80:])
    await ended(lines, 10)
    fleet[0].kill()
    fleet[0] = await start_worker(QUICK)
    await ended(lines, 60)
    fleet[-1].kill()
    await ended(lines, len(payloads))
    if touch:
        with safety():
            assert await trail(lines) == {f"k{k}": list(range(20)) for k in range(8)}
    ends = await lines.fetch(
        "select array_agg((payload ->> 'n')::int order by finished_at, id) as ns from"
        " inboxd.commands_history group by ordering_key"
    )
    with safety():
        assert all(row["ns"] == list(range(20)) for row in ends)


async def test_commands_of_a_key_wait_for_a_failed_one(
    lines: Database, start_worker: StartWorker
) -> None:
    await steps(lines, [{"key": "warm", "n": n} for n in range(50)])
    await start_worker()
    await ended(lines, 50)  # known to be quick: several of a key are leased together
    payloads = [
        {
            "key": f"k{k}",
            "n": n,
            "good_at": 1 + (n % 7 == 3),
            "refused_at": int(n % 7 == 5),
            "touch": k < 10,
        }
        for k in range(20)
        for n in range(20)
    ]
    await steps(lines, payloads)
    await ended(lines, 450)
    found = await trail(lines)
    with safety():
        assert all(found[f"k{k}"] == list(range(20)) for k in range(10))
    ends = await lines.fetch(
        "select array_agg((payload ->> 'n')::int order by started_at) as ns"
        " from inboxd.commands_history group by ordering_key"
    )
    with safety():
        assert all(row["ns"] == sorted(row["ns"]) for row in ends)


async def test_long_lines_go_on_in_order_over_failures_and_lost_sessions(
    lines: Database, start_worker: StartWorker
) -> None:
    """The next commands of a line are claimed while earlier ones run, or are being settled."""
    count = 1_200
    payloads = [
        {
            "key": f"k{k}",
            "n": n,
            "good_at": 1 + (n % 197 == 3),
            "refused_at": int(n % 211 == 5),
            "touch": k == 0,
        }
        for n in range(count)
        for k in range(3)
    ]
    await steps(lines, payloads)
    await start_worker(QUICK)
    for done in (300, 1_000, 2_000):
        await ended(lines, done)
        await lines.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and application_name like 'inboxd % daemon'"
        )
    await ended(lines, len(payloads), within=60)
    with safety():
        assert (await trail(lines))["k0"] == list(range(count))
    for when in ("started_at", "finished_at"):
        ends = await lines.fetch(
            f"select array_agg((payload ->> 'n')::int order by {when}, id) as ns"
            " from inboxd.commands_history group by ordering_key"
        )
        with safety():
            assert all(row["ns"] == list(range(count)) for row in ends)


async def test_a_dead_letter_blocks_its_key_until_it_is_replayed(
    lines: Database, start_worker: StartWorker
) -> None:
    worker = await start_worker({"maintenance": {"interval": "1s"}})
    await steps(lines, [{"key": "a", "n": n, "good_at": 9 if n == 1 else 1} for n in range(4)])
    await steps(lines, [{"key": "b", "n": n} for n in range(4)])
    await ended(lines, 5)
    await _dead(lines, 1)
    await steps(lines, [{"key": "a", "n": 4}])
    await steps(lines, [{"key": "b", "n": 4}])
    await ended(lines, 6)
    with safety():
        assert await trail(lines) == {"a": [0], "b": [0, 1, 2, 3, 4]}

    async def is_shown() -> bool:
        told = 'inboxd_blocked_keys{held_by="dead letter",queue="lines"} 1.0'
        return told in (await worker.get("/metrics"))[1]

    await eventually(is_shown)
    await lines.execute(
        "update inboxd.commands set payload = payload || '{\"good_at\": 1}' where status = 'failed'"
    )
    (row,) = await lines.fetch("select id from inboxd.commands where status = 'failed'")
    async with daemon_session(lines) as session:
        await operations.act(session, "commands", "replay", [row["id"]], actor="test")
    await ended(lines, 10)
    with safety():
        assert (await trail(lines))["a"] == [0, 1, 2, 3, 4]


async def test_a_dead_letter_leaves_its_line_with_skip(
    lines: Database, start_worker: StartWorker
) -> None:
    await start_worker({"queues": {"lines": {"on_failure": "skip"}}})
    await steps(lines, [{"key": "a", "n": n, "good_at": 9 if n == 1 else 1} for n in range(4)])
    await ended(lines, 3)
    with safety():
        assert await trail(lines) == {"a": [0, 2, 3]}


async def _dead(database: Database, count: int) -> None:
    async def are() -> bool:
        found = await database.fetchval(
            "select count(*) from inboxd.commands where status = 'failed'"
        )
        return bool(found == count)

    await eventually(are)


async def running_while_held(
    database: Database, fleet: Sequence[Worker], count: int
) -> dict[str, int]:
    """The running commands per key, when `count` wait for the trail and all workers have looked."""
    await lock_awaited(database, count, query="insert into trail%")
    await looked_again(database, "command", *fleet)
    rows = await database.fetch(
        "select coalesce(ordering_key, '') as key, count(*) as running from inboxd.commands"
        " where status = 'running' group by 1"
    )
    return {row["key"]: row["running"] for row in rows}


async def test_running_commands_of_a_key_stay_within_key_concurrency(
    lines: Database, start_worker: StartWorker
) -> None:
    config: Config = {**HELD, "queues": {"lines": {"key_concurrency": 2}}}
    fleet = [await start_worker(config) for _ in range(2)]
    async with held(lines):
        await steps(lines, [{"key": f"k{n % 3}", "n": n, "wait": 0.03} for n in range(36)])
        assert await running_while_held(lines, fleet, 6) == {"k0": 2, "k1": 2, "k2": 2}
    await ended(lines, 36)
    ran = await spans(lines)
    with safety():
        assert max(most_at_once([r for r in ran if r[0] == f"k{k}"]) for k in range(3)) <= 2


@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "without keys"])
async def test_running_commands_of_all_workers_stay_within_total_concurrency(
    lines: Database, start_worker: StartWorker, keyed: bool
) -> None:
    config: Config = {**HELD, "queues": {"lines": {"total_concurrency": 3}}}
    fleet = [await start_worker(config) for _ in range(2)]
    payloads = [{"key": f"k{n}", "n": n, "wait": 0.03, "touch": n % 2 == 0} for n in range(60)]
    async with held(lines):
        await steps(lines, payloads, **({} if keyed else {"ordering_key": None}))
        assert sum((await running_while_held(lines, fleet, 3)).values()) == 3
    await ended(lines, 60)
    with safety():
        assert most_at_once(await spans(lines)) <= 3


async def test_a_rate_holds_in_every_window(lines: Database, start_worker: StartWorker) -> None:
    """The rate bounds claims; starts, which follow them, may exceed it after a late burst."""
    config: Config = {"worker": {"poll_interval": "1h"}, "queues": {"lines": {"rate": "20/s"}}}
    fleet = [await start_worker(config) for _ in range(2)]
    await steps(lines, [{"n": n, "touch": False} for n in range(60)], ordering_key=None)
    await ended(lines, 60)
    times = [
        row[0]
        for row in await lines.fetch(
            "select date_part('epoch', started_at) from inboxd.commands_history"
        )
    ]
    assert most_in_a_second(times) <= 20
    put_off = 'inboxd_queue_held_back_total{queue="lines",reason="rate"}'
    assert sum([await each.metric(put_off) for each in fleet]) > 0, "the rate has delayed commands"
    assert most_in_a_second([began for _, began, _ in await spans(lines)]) <= 2 * 20


async def test_an_open_claim_delays_only_its_queue(
    lines: Database, start_worker: StartWorker
) -> None:
    await start_worker({"queues": {"narrow": {"total_concurrency": 2}}})
    await steps(lines, [{"n": 0, "touch": False}], queue="narrow", ordering_key=None)
    await ended(lines, 1)
    async with lines.connect() as other:
        async with other.transaction():
            await other.execute("select from inboxd.limits where name = 'narrow' for update")
            await steps(lines, [{"n": 1, "touch": False}] * 5, queue="narrow", ordering_key=None)
            await steps(lines, [{"n": 1, "touch": False}] * 50, queue="wide", ordering_key=None)
            await ended(lines, 51)
            narrow = "select count(*) from inboxd.commands where queue = 'narrow'"
            assert await lines.fetchval(narrow) == 5
        await ended(lines, 56)


async def test_thousands_of_one_tenant_do_not_starve_ten_of_another(
    lines: Database, start_worker: StartWorker
) -> None:
    many = 100_000
    await start_worker({"commands": {"concurrency": 4}})
    await lines.execute(
        "insert into inboxd.commands (type, queue, ordering_key, payload) select 'test.step',"
        " 'lines', 'hot', jsonb_build_object('key', 'hot', 'n', n, 'wait', 0.002, 'touch', false)"
        " from generate_series(1, $1::int) n",
        many,
    )
    await ended(lines, 100)
    await steps(lines, [{"key": "small", "n": n, "touch": False} for n in range(10)])

    async def small() -> bool:
        done = await lines.fetchval(
            "select count(*) from inboxd.commands_history where ordering_key = 'small'"
        )
        return bool(done == 10)

    await eventually(small)
    left = await lines.fetchval("select count(*) from inboxd.commands where ordering_key = 'hot'")
    assert left > many / 2, "the ten commands waited for the thousands"


@pytest.mark.parametrize("key", [None, "hot"], ids=["without keys", "of one key"])
async def test_thousands_of_one_kind_do_not_delay_another_queue(
    lines: Database, start_worker: StartWorker, key: str | None
) -> None:
    await lines.execute(
        "insert into inboxd.commands (queue, type, payload, ordering_key)"
        " select 'bulk', 'test.noop', '{}', $1 from generate_series(1, 10000)",
        key,
    )
    await steps(lines, [{"key": f"k{n % 3}", "n": n} for n in range(30)])
    await start_worker()
    await ended(lines, 10_030, within=60)
    later = await lines.fetchval(
        "select count(*) from inboxd.commands_history where queue = 'bulk' and finished_at >"
        " (select max(finished_at) from inboxd.commands_history where queue = 'lines')"
    )
    assert later > 5_000


async def test_a_delayed_command_does_not_delay_its_key(
    lines: Database, start_worker: StartWorker
) -> None:
    await start_worker()
    await lines.execute(
        "insert into inboxd.commands (type, queue, ordering_key, payload, run_at) values"
        " ('test.step', 'lines', 'k', '{\"n\": 1}', now() + interval '1.5 seconds'),"
        " ('test.step', 'lines', 'k', '{\"n\": 0}', now())"
    )
    await ended(lines, 1)
    assert await trail(lines) == {"k": [0]}
    await ended(lines, 2)
