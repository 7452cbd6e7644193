"""The listener: one connection for all notifications (of rows, controls and joining workers).

It sweeps both tables after each connect, since notifications were lost before it. Known limit:
without the connection only polls find new rows (promise 4). *See:* `store/wakeups.py`; `wakeup`.
"""

import random
from collections.abc import Callable, Mapping

import anyio

from inboxd.engine.parts import Parts
from inboxd.engine.wakeup import WakeUp
from inboxd.store import wakeups
from inboxd.store.outage import OUTAGE
from inboxd.store.wakeups import HotTable
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

_LONGEST_PAUSE = 10.0
# Shortest and longest interval between tests of the listening connection, in seconds.
_SHORTEST_CHECK, _LONGEST_CHECK = 1.0, 10.0


async def listen(
    parts: Parts, flags: Mapping[HotTable, WakeUp], on_joining: Callable[[], None]
) -> None:
    """Reconnect with growing pauses. on_joining: called when another worker joins."""
    heartbeat = parts.settings.worker.heartbeat_interval.total_seconds()
    connected = parts.metrics.listener_connected
    attempts = 0

    def on_control() -> None:
        parts.controls.on_notify()
        parts.endpoints.on_notify()

    def on_connected() -> None:
        nonlocal attempts
        attempts = 0
        connected.set(1)
        for wakeup in flags.values():
            wakeup.invalidate("reconnect")
        on_joining()  # a worker may have joined before this connection

    while True:
        try:
            await wakeups.listen(
                parts.settings.database,
                on_wakeup=lambda table: flags[table].wake("notify"),
                on_control=on_control,
                on_joining=on_joining,
                on_connected=on_connected,
                check_interval=min(max(_SHORTEST_CHECK, heartbeat), _LONGEST_CHECK),
            )
        except Exception as error:  # noqa: BLE001 - any failure: listen again
            OUTAGE.warn(_log.warning, "listening again", error)
        finally:
            connected.set(0)
        attempts += 1
        await anyio.sleep(random.uniform(0.1, min(_LONGEST_PAUSE, 0.2 * 2 ** min(attempts, 10))))
