"""Backlogs: rows inserted by one statement into tables that are then vacuumed."""

import asyncpg

# Like 8 KB of real data, digits of md5 cannot be compressed; repeated letters would need 100 bytes.
PAD = "(select string_agg(md5(i::text), '') from generate_series(1, 260) i)"
PAD_BYTES = 260 * 32


def payload(size: int) -> str:
    """SQL for a payload of `size` bytes, from `n` and `pad`."""
    # 30 bytes are the rest of the object; the size is that of the text, and jsonb has about the
    # same. Larger pads repeat one letter: gigabytes that cannot be compressed would measure the
    # disk.
    pad = f"left(pad, {size - 30})" if size < PAD_BYTES else f"repeat('x', {size - 30})"
    return f"jsonb_build_object('n', n, 'pad', {pad})"


async def fill_events(
    connection: asyncpg.Connection, rows: int, type_: str = "bench.noop", size: int = 200
) -> None:
    """Events of one type, with payloads of `size` bytes."""
    await connection.execute(
        "insert into inboxd.events (type, payload) "
        f"select '{type_}', {payload(size)} from {PAD} as t(pad), generate_series(1, {rows}) n",
        timeout=600,
    )
    await settle_down(connection)


async def fill_lines(
    connection: asyncpg.Connection, rows: int, key: str, blocked: int = 0, size: int = 200
) -> None:
    """Events of a sequential topic; `key` is SQL for their ordering keys, from `n`.

    `blocked` more events stand behind a dead letter of one key, as arrivals.
    """
    await connection.execute(
        "insert into inboxd.topics (name, mode, source) values ('lines', 'sequential', 'bench')"
    )
    await connection.execute(
        "insert into inboxd.events (topic, type, ordering_key, payload) select 'lines', "
        f"'bench.turn', {key}, {payload(size)} from {PAD} as t(pad), "
        f"generate_series(1, {rows + blocked}) n",
        timeout=600,
    )
    if blocked:
        await connection.execute(
            "insert into inboxd.events (topic, type, ordering_key) values"
            " ('lines', 'bench.turn', 'hot');"
            "update inboxd.events set position = 1, head = true, status = 'failed'"
            " where ordering_key = 'hot' and payload is null"
        )
    await settle_down(connection)


async def fill_commands(
    connection: asyncpg.Connection,
    rows: int,
    type_: str = "bench.noop",
    size: int = 200,
    key: str = "null",
) -> None:
    """Commands with payloads of `size` bytes; `key` is SQL for their ordering keys, from `n`."""
    await connection.execute(
        "insert into inboxd.commands (type, queue, ordering_key, payload) select "
        f"'{type_}', 'default', {key}, {payload(size)} from {PAD} as t(pad), "
        f"generate_series(1, {rows}) n",
        timeout=600,
    )
    await settle_down(connection)


async def settle_down(connection: asyncpg.Connection) -> None:
    """Vacuum the filled tables and write them to disk."""
    await connection.execute("vacuum analyze inboxd.events, inboxd.commands, inboxd.bodies")
    await connection.execute("checkpoint")
