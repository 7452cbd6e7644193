"""The wake-up flag, notifications, and the listening connection.

Promises that `listen` ends with an error when its connection is dead, even half-open: at each check
it must receive its own notification. Known limit: PgBouncer in transaction mode cannot give such a
connection; mode "off" polls instead.
*See:* `engine/listener.py`, and `engine/wakeup.py`, which it notifies.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Literal
from uuid import uuid4

import anyio

from inboxd.errors import DatabaseError
from inboxd.settings import Database
from inboxd.store.session import Session, connect

HotTable = Literal["events", "commands"]
_LOCKS: dict[HotTable, int] = {"events": 1, "commands": 2}

# The time for an answer on the listening connection. A handler that blocks the event loop for less
# than this does not end the listening.
_ANSWER_SECONDS = 10.0


class Flag(IntEnum):
    """The instruction to producers: whether their inserts notify."""

    SILENT = 0
    NOTIFY = 1
    OFF = 2


async def set_flag(session: Session, table: HotTable, flag: Flag) -> None:
    """Set the flag; all sessions see it at once, since sequences are not transactional."""
    await session.execute(f"set_{table}_flag", int(flag))


async def no_silent_producer(session: Session, table: HotTable) -> bool:
    """Whether all producers that did not notify have ended; their rows are visible from now on."""
    return bool(await session.fetchval("no_silent_producer", _LOCKS[table]))


async def notify(session: Session, table: HotTable) -> None:
    await session.execute("notify", table)


async def announce(session: Session) -> None:
    """Notify the workers that another one has joined."""
    await session.execute("notify", "workers")


async def listen(
    database: Database,
    *,
    on_wakeup: Callable[[HotTable], None],
    on_control: Callable[[], None],
    on_joining: Callable[[], None],
    on_connected: Callable[[], None],
    check_interval: float,
) -> None:
    """Ends only with the connection: raises DatabaseError or a driver error."""
    session = await connect(database, "listener")
    notified = anyio.Event()
    # Without the schema's name, which may be long: a channel's name has at most 63 bytes.
    echo = f"inboxd_echo_{uuid4().hex}"

    def on_notification(_connection: object, _pid: int, channel: str, _payload: object) -> None:
        if channel == echo:
            notified.set()
        elif channel.endswith("_controls"):
            on_control()
        elif channel.endswith("_workers"):
            on_joining()
        else:
            on_wakeup("events" if channel.endswith("_events") else "commands")

    def on_lost(_connection: object) -> None:
        notified.set()

    try:
        session.connection.add_termination_listener(on_lost)
        with anyio.fail_after(_ANSWER_SECONDS):
            for what in ("events", "commands", "controls", "workers"):
                await session.connection.add_listener(
                    f"{session.sql.schema}_{what}", on_notification
                )
            await session.connection.add_listener(echo, on_notification)
        on_connected()
        while True:
            notified = anyio.Event()
            with anyio.fail_after(_ANSWER_SECONDS):
                await session.execute("echo", echo)
                await notified.wait()
            if session.connection.is_closed():
                raise DatabaseError("the listening connection was closed by the server")
            notified = anyio.Event()
            with anyio.move_on_after(check_interval):
                await notified.wait()
    finally:
        session.connection.terminate()
