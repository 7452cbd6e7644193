"""Conditions that hold a row: how a test makes and ends each of them, on real tables.

`await COMMANDS[0].come(world)` makes the first one, `await COMMANDS[0].go(world)` ends it.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from inboxd.settings import Queue
from tests.store.waiting_world import ANOTHER, KEY, QUEUE, TYPE, Step, World

_OTHERS_GONE = f"delete from inboxd.commands where id <> $1 and queue = '{QUEUE}'"
_NONE_RUNS = f"delete from inboxd.commands where status = 'running' and queue = '{QUEUE}'"


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that holds the row, and no more; said: the name of its text.

    apart: conditions that cannot hold at the same time. first: is made before the others, since it
    writes the row again. alike: another condition stands for it in pairs.
    """

    said: str
    come: Step
    go: Step
    apart: frozenset[str] = frozenset()
    first: bool = False
    alike: bool = False


def _set(there: str, gone: str) -> tuple[Step, Step]:
    return (lambda world: world.set(there)), (lambda world: world.set(gone))


def _run(there: str, gone: str) -> tuple[Step, Step]:
    return (lambda w: w.connection.execute(there)), (lambda w: w.connection.execute(gone))


def _paused(kind: str, name: str, said: str | None = None) -> Condition:
    come, go = _run(
        f"insert into inboxd.controls values ('{kind}', '{name}', now(), 'ana', 'provider down')",
        f"delete from inboxd.controls where kind = '{kind}' and name = '{name}'",
    )
    return Condition(said or f"paused {kind}", come, go)


_BREAKERS = frozenset({"breaker", "breaker, due", "breaker, tried", "breaker, forced"})


def _breaker(said: str, there: str) -> Condition:
    come, go = _run(
        f"update inboxd.breakers set {there}, version = version + 1 where name = 'target'",
        "update inboxd.breakers set mode = 'auto', state = 'closed', open_until = null,"
        " probe_by = null, probe_until = null, version = version + 1 where name = 'target'",
    )
    return Condition(said, come, go, _BREAKERS, alike=said != "breaker")


OPEN = tuple(
    _breaker(said, there)
    for said, there in {
        "breaker": "state = 'open', open_until = now() + interval '1 minute'",
        "breaker, due": "state = 'open', open_until = now() - interval '1 minute'",
        "breaker, tried": "state = 'half_open', open_until = now(), probe_by = gen_random_uuid(),"
        " probe_until = now() + interval '1 minute'",
        "breaker, forced": "mode = 'open', actor = 'ana'",
    }.items()
)
_WORKER = ("nobody", "unserved", "kept", "busy", "exclusive")
NOBODY = tuple(
    Condition(
        "nobody",
        *_run(
            f"update inboxd.workers set state = '{state}'",
            "update inboxd.workers set state = 'running'",
        ),
        frozenset(_WORKER),
        alike=state == "dead",
    )
    for state in ("draining", "dead")
)


async def _queue(world: World, **limits: object) -> None:
    world.queue = Queue.model_validate(limits)


async def _fill(world: World, **limits: object) -> None:
    await _queue(world, **limits)
    kept, world.table = world.id, "commands"
    await world.connection.execute("insert into inboxd.limits (name) values ($1)", QUEUE)
    world.id = await world.write(run_at=datetime.now(UTC) - timedelta(hours=2))
    assert await _claim_for_good(world)
    world.id = kept


async def _claim_for_good(world: World) -> bool:
    """Claim as `is_claimed` does, and keep the claim."""
    async with world.session.transaction():
        return await world._claims_command()


async def _make_room(world: World) -> None:
    await world.connection.execute(_NONE_RUNS)
    await world.connection.execute(
        "update inboxd.limits set claimed_at = (select array_agg(t - interval '1 hour')"
        " from unnest(claimed_at) t) where cardinality(claimed_at) > 0"
    )


_LIMITS = frozenset({"total", "rate"})
# A suspect is claimed by another statement, within the same limits.
_SUSPECT = _set("crashes = 1", "crashes = 0, suspect_group = null, lone_crashes = null")
_ALONE = _set(
    "crashes = 1, lone_crashes = 0", "crashes = 0, suspect_group = null, lone_crashes = null"
)
_LATER = _set("run_at = now() + interval '40 seconds'", "run_at = now() - interval '1 minute'")
_UNSERVED = _run(
    "update inboxd.workers set commands = '{}', subscriptions = array[E'other\\nx']",
    f"update inboxd.workers set commands = '{{{TYPE},{ANOTHER}}}', subscriptions = array["
    f"E'lane\\n{TYPE}', E'lined\\n{TYPE}', E'lined\\n{ANOTHER}', E'chunked\\n{TYPE}']",
)


async def _dispose(world: World) -> None:
    await world.connection.execute("delete from inboxd.dependencies")
    await world.connection.execute("delete from inboxd.batches")
    await world.connection.execute(_OTHERS_GONE, world.id)
    await world.set("needs = 0, status = 'pending'")


async def _wait_for(world: World, uuid: object) -> None:
    await world.set("needs = 1, status = 'waiting'")
    await world.connection.execute(
        "insert into inboxd.dependencies (needs, waiting)"
        " select $1, command_id from inboxd.commands where id = $2",
        uuid,
        world.id,
    )


async def _wait_for_batch(world: World) -> None:
    batch = await world.connection.fetchval(
        "insert into inboxd.batches (size, succeeded, failed, closed_at, status)"
        " values (1000, 997, 1, now(), 'pending') returning batch_id"
    )
    await _wait_for(world, batch)


async def _wait_for_open(world: World) -> None:
    batch = await world.connection.fetchval(
        "insert into inboxd.batches (size, succeeded) values (5, 3) returning batch_id"
    )
    await _wait_for(world, batch)


async def _wait_for_row(world: World) -> None:
    other = await world.write()
    its_id = "select command_id from inboxd.commands where id = $1"
    await _wait_for(world, await world.connection.fetchval(its_id, other))


async def _wait_for_nothing(world: World) -> None:
    await _wait_for(world, uuid4())


async def _wait_in_batch(world: World) -> None:
    """The row's batch waits for another batch, and the row for its batch."""
    own = await world.connection.fetchrow(
        "insert into inboxd.batches (size, status, needs) values (1, 'waiting', 1)"
        " returning id, batch_id"
    )
    other = await world.connection.fetchval(
        "insert into inboxd.batches (size, succeeded, closed_at) values (3, 1, now())"
        " returning batch_id"
    )
    assert own is not None
    await world.connection.execute("insert into inboxd.dependencies values ($1, $2)", other, own[1])
    await world.connection.execute(
        "update inboxd.commands set needs = 1, status = 'waiting', batch_id = $2 where id = $1",
        world.id,
        own[0],
    )


def _busy(of_queue: bool) -> Condition:
    async def come(world: World) -> None:
        if of_queue:
            await _queue(world, concurrency=1)
            await world.connection.execute(
                "insert into inboxd.commands (queue, type, status, worker_id, started_at)"
                " values ($1, $2, 'running', $3, now())",
                QUEUE,
                TYPE,
                world.me.id,
            )
        else:
            await world.connection.execute(
                "update inboxd.workers set in_flight = $1", world.settings.commands.concurrency
            )

    async def go(world: World) -> None:
        await world.connection.execute(_NONE_RUNS)
        await world.connection.execute("update inboxd.workers set in_flight = 0")

    return Condition("busy", come, go, frozenset({*_WORKER, *_LIMITS}), alike=of_queue)


async def _keep_for_suspect(world: World) -> None:
    await world.connection.execute(
        "update inboxd.leases set holder = $1 where name = 'alone'", world.me.id
    )


async def _run_suspect(world: World) -> None:
    await world.connection.execute(
        "insert into inboxd.commands (queue, type, status, worker_id, started_at, fence,"
        " alone_fence) values ('elsewhere', $1, 'running', $2, now(), 1, 1)",
        TYPE,
        world.me.id,
    )


async def _done_alone(world: World) -> None:
    await world.connection.execute("delete from inboxd.commands where queue = 'elsewhere'")
    await world.connection.execute("update inboxd.leases set holder = null")


EXCLUSIVE = tuple(
    Condition("exclusive", come, _done_alone, frozenset(_WORKER), alike=come is _run_suspect)
    for come in (_keep_for_suspect, _run_suspect)
)
_RUN_BEFORE = frozenset({"total", "rate", "busy", "suspect", "alone"})


def _needs(said: str, come: Step) -> Condition:
    apart = _RUN_BEFORE | {"batch, dead", "batch, open", "row", "released", "batch"}
    return Condition(said, come, _dispose, apart, alike=come is not _wait_for_batch)


COMMANDS = (
    _needs("batch, dead", _wait_for_batch),
    _needs("batch, open", _wait_for_open),
    _needs("row", _wait_for_row),
    _needs("released", _wait_for_nothing),
    _needs("batch", _wait_in_batch),
    _paused("queue", QUEUE),
    _paused("type", TYPE),
    *NOBODY,
    Condition("unserved", *_UNSERVED, frozenset(_WORKER)),
    *OPEN,
    Condition("due", *_LATER),
    Condition("suspect", *_SUSPECT, frozenset({"alone"})),
    Condition("alone", *_ALONE, alike=True),
    Condition("total", lambda w: _fill(w, total_concurrency=1), _make_room, _LIMITS, first=True),
    Condition("rate", lambda w: _fill(w, rate="1/h"), _make_room, _LIMITS, first=True),
    _busy(of_queue=False),
    _busy(of_queue=True),
    *EXCLUSIVE,
)


def _before(
    said: str,
    columns: str,
    values: str,
    *,
    queue: dict[str, object],
    type_: str = TYPE,
    also: str = "select",
    alike: bool = False,
) -> Condition:
    """Another row of the key comes first; also: a statement that holds that row too."""

    async def come(world: World) -> None:
        await _queue(world, **queue)
        await world.connection.execute(
            f"insert into inboxd.commands (queue, type, ordering_key, {columns})"
            f" values ('{QUEUE}', '{type_}', '{KEY}', {values})"
        )
        await world.connection.execute(also)

    async def go(world: World) -> None:
        await world.connection.execute(_OTHERS_GONE, world.id)
        await world.connection.execute(_FREE_ANOTHER)

    # Of several causes of that row, the first one is named.
    hides = {"behind, unserved": {"nobody"}, "behind, breaker": {"unserved"}}
    return Condition(said, come, go, _HELD | hides.get(said, set()), alike=alike)


_FREE_ANOTHER = f"""
delete from inboxd.controls where name = '{ANOTHER}';
update inboxd.breakers set state = 'closed', open_until = null, version = version + 1
 where name = 'another' and state = 'open';
"""
# Ways to hold a row of another type that comes first.
_HOLDS_ANOTHER: dict[str, tuple[str, str]] = {
    "behind, paused": (
        ANOTHER,
        f"insert into inboxd.controls values ('type', '{ANOTHER}', now(), 'ana', null)",
    ),
    "behind, unserved": ("nobodys", "select"),
    "behind, breaker": (
        ANOTHER,
        """update inboxd.breakers set state = 'open', version = version + 1,
                  open_until = now() + interval '1 minute' where name = 'another'""",
    ),
}
_HELD = frozenset(
    {
        *("behind", "behind, running", "behind, later", "behind, next", "behind, apart", "key"),
        *(*_HOLDS_ANOTHER, *_LIMITS, "busy"),
    }
)
_BEFORE = "now() - interval '1 hour'"
_RUNS = "status, line_at, worker_id, started_at", "'running', now(), gen_random_uuid(), now()"
# Places of another row before this one: it holds the key, or is the first of the line; or many of a
# key may run at once, and it is in retry, or new.
_FRONTS: tuple[tuple[str, str, dict[str, object]], ...] = (
    ("status, line_at, run_at", f"'waiting', {_BEFORE}, {_BEFORE}", {}),
    ("status, run_at", f"'waiting', {_BEFORE}", {}),
    ("status, line_at, run_at", f"'waiting', {_BEFORE}, {_BEFORE}", {"key_concurrency": 3}),
    ("status, run_at", f"'waiting', {_BEFORE}", {"key_concurrency": 3}),
)
KEYED = (
    _paused("queue", QUEUE),
    _paused("type", TYPE),
    *NOBODY,
    Condition("unserved", *_UNSERVED, frozenset(_WORKER)),
    OPEN[0],
    Condition("due", *_LATER),
    _before("behind", "status, line_at", "'failed', now()", queue={}),
    _before("behind, running", *_RUNS, queue={}),
    _before("behind, running", *_RUNS, queue={"on_failure": "skip"}),
    _before(
        "behind, later",
        "status, line_at, run_at",
        "'waiting', now(), now() + interval '1 hour'",
        queue={},
    ),
    _before(
        "behind, apart",
        "status, line_at, run_at, crashes",
        f"'waiting', now(), {_BEFORE}, 1",
        queue={},
    ),
    *(
        _before(said, columns, values, queue=queue, type_=type_, also=also, alike=n > 0)
        for said, (type_, also) in _HOLDS_ANOTHER.items()
        for n, (columns, values, queue) in enumerate(_FRONTS)
    ),
    *EXCLUSIVE,
)


async def _two_run(world: World) -> None:
    await _queue(world, key_concurrency=2)
    for _ in range(2):
        await world.connection.execute(
            f"insert into inboxd.commands (queue, type, ordering_key, {_RUNS[0]})"
            f" values ('{QUEUE}', '{TYPE}', '{KEY}', {_RUNS[1]})"
        )


KEYED = (
    *KEYED,
    Condition("key", _two_run, lambda w: w.connection.execute(_OTHERS_GONE, w.id), _HELD),
)

# ------------------------------------------------------------------------------------------ events


def _slots(topic: str) -> Condition:
    async def come(world: World) -> None:
        transaction = world.other.transaction()
        await transaction.start()
        await world.other.connection.execute(
            "select pg_advisory_xact_lock(hashtext('inboxd.slots.' || $1), 1)", topic
        )
        world.stack.push_async_callback(transaction.rollback)

    async def go(world: World) -> None:
        await world.stack.aclose()

    return Condition("full", come, go, frozenset({"producer", "visited"}))


_APART = _set(
    "crashes = 1, run_at = now() + interval '1 minute'",
    "crashes = 0, run_at = now() - interval '1 minute'",
)
_ALWAYS = (
    _paused("type", TYPE),
    *NOBODY,
    Condition("kept", *_UNSERVED, frozenset(_WORKER)),
    *OPEN,
    *EXCLUSIVE,
)
LANE = (
    _paused("topic", "lane"),
    *_ALWAYS,
    Condition("due", *_LATER, frozenset({"apart"})),
    Condition("apart", *_APART, frozenset({"due"})),
    _slots("lane"),
)


def _head(said: str, there: str) -> Condition:
    async def come(world: World) -> None:
        type_, also = _HOLDS_ANOTHER.get(said, (TYPE, "select"))
        type_ = "nobodys" if said == "behind, kept" else type_
        head = await world.write(topic="lined", type=type_, ordering_key=KEY)
        await world.set("position = 1, head = true", head)
        await world.set(there, head)
        await world.connection.execute(also)

    async def go(world: World) -> None:
        await world.connection.execute("delete from inboxd.events where id <> $1", world.id)
        await world.connection.execute(_FREE_ANOTHER)

    apart = frozenset({*_HEADS, "kept", "due", "apart", "intake"})
    apart |= {"nobody"} if said == "behind, kept" else set()
    return Condition(said, come, go, apart, alike=said != "behind")


_HEADS = ("behind", "behind, kept", "behind, later", "behind, paused", "behind, breaker")


async def _written_while_another_writes(world: World) -> None:
    transaction = world.other.transaction()
    await transaction.start()
    world.stack.push_async_callback(transaction.rollback)
    await world.other.connection.execute(
        "insert into inboxd.events (topic, type, ordering_key) values ('lined', $1, $2)", TYPE, KEY
    )
    await world.connection.execute("delete from inboxd.events where id = $1", world.id)
    world.id = await world.write(topic="lined", ordering_key=KEY)


async def _ends(world: World) -> None:
    await world.stack.aclose()


async def _visited(world: World) -> None:
    transaction = world.other.transaction()
    await transaction.start()
    world.stack.push_async_callback(transaction.rollback)
    its_bucket = "select bucket from inboxd.events where id = $1"
    bucket = await world.connection.fetchval(its_bucket, world.id)
    lock = "select pg_advisory_xact_lock(hashtext('inboxd/lined'), $1)"
    await world.other.connection.execute(lock, bucket)


LINED = (
    _paused("topic", "lined"),
    *_ALWAYS,
    Condition("due", *_LATER, frozenset({"apart", *_HEADS})),
    Condition("apart", *_APART, frozenset({"due", *_HEADS}), alike=True),
    _head("behind", "status = 'failed'"),
    _head("behind, later", "run_at = now() + interval '1 hour'"),
    _head("behind, kept", f"run_at = {_BEFORE}"),
    _head("behind, paused", f"run_at = {_BEFORE}"),
    _head("behind, breaker", f"run_at = {_BEFORE}"),
    _slots("lined"),
    Condition(
        "intake",
        *_run(
            "insert into inboxd.intakes (origin, type, topic) values ('default', 'x', 'lined')",
            "delete from inboxd.intakes",
        ),
        frozenset(_HEADS),
    ),
    Condition(
        "producer",
        _written_while_another_writes,
        _ends,
        frozenset({"full", "visited", *_HEADS}),
        first=True,
    ),
    Condition("visited", _visited, _ends, frozenset({"full", "producer", *_HEADS})),
)


def _chunk(said: str, later: str) -> Condition:
    come, go = _set(f"run_at = now() + interval '{later}'", "run_at = now() - interval '1 minute'")
    return Condition(said, come, go, frozenset({"chunk, or full", "chunk, full"}))


CHUNKED = (
    _paused("topic", "chunked"),
    _paused("type", TYPE),
    _paused("type", ANOTHER, "paused reader"),
    *OPEN,
    *EXCLUSIVE,
    _chunk("chunk, or full", "1 hour"),
    _chunk("chunk, full", "36525 days"),
)
