"""The receiver's listener: accepts connections, sweeps over them, and drains.

uvicorn's server is not used: it can neither stop accepting nor close connections in order. The
kernel wakes all processes that share an inherited socket, and the first one gets the connection;
then it pauses briefly, so that a burst is shared and a busy process gets fewer connections.
Promises:

- at most `max_connections`; further ones wait in the kernel's queue. While the listener is full,
each sweep closes the connections that have been idle for longest, connections with a slow head or
body (beginning with the address that has most of these), and slow handshakes;
- a drain accepts what the kernel has queued, then closes this process's descriptor without a
shutdown of the socket: other processes that share it go on;
- during a drain each answer says `Connection: close`. After one second without a request, the
writing side of a connection is shut, and it is read until the client closes.

Known limits: a request that arrives just when its idle connection is closed gets the end of the
connection instead of an answer; it was not processed. A connection that reaches the process's own
socket between the last accept and its closing (microseconds) is reset. With TLS the writing side
cannot be shut alone, so such a request may be reset.
"""

import asyncio
import contextlib
import heapq
import select
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from email.utils import formatdate
from typing import Any

import anyio
from anyio.abc import TaskStatus

from inboxd.inbound.certificate import tls
from inboxd.inbound.protocol import InboundConnection
from inboxd.inbound.state import Shared
from inboxd.settings import InboundHttp
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# Seconds between two sweeps: an eighth of the shortest timeout, within these bounds.
_SHORTEST_PERIOD, _LONGEST_PERIOD = 0.01, 0.25
# Seconds without a request until an idle connection may be closed; also the time limit for a head
# or a TLS handshake while other connections wait.
_IDLE_SECONDS = 1.0
# Connections that one sweep closes to make room: this number, or this fraction of max_connections.
_EVICTED_AT_LEAST, _EVICTED_SHARE = 64, 16
# Connections accepted in a row, and seconds of the pause after them, in which other processes
# accept: otherwise one process would take a whole burst.
_ACCEPTED_AT_ONCE, _TURN_SECONDS = 8, 0.001
# The longest queue of a listening socket (net.core.somaxconn).
_MOST_QUEUED = 4096
# Seconds between two log lines about a full listener.
_QUIET_SECONDS = 60.0
# Seconds for cancelled tasks to end, and for a TLS shutdown.
_CANCELLING_SECONDS = 1.0
_TLS_SHUTDOWN_SECONDS = 2.0


async def listen(
    settings: InboundHttp,
    app: Any,
    *,
    sockets: Sequence[socket.socket],
    on_refused: Callable[[str], None] = lambda _: None,
    task_status: TaskStatus["InboundListener"] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """sockets: listening, closed at the end. Raises SettingsError for an unusable certificate."""
    listener = InboundListener(settings, app, sockets, on_refused)
    await listener.serve(task_status)


class InboundListener:
    def __init__(
        self,
        settings: InboundHttp,
        app: Any,
        sockets: Sequence[socket.socket],
        on_refused: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._sockets = list(sockets)
        self._on_refused = on_refused
        self._tls = tls(settings.certificate, settings.private_key)
        times = (settings.header_timeout, settings.body_timeout, settings.keep_alive)
        header_timeout, body_timeout, keep_alive = (each.total_seconds() for each in times)
        self._shared = Shared(
            app,
            header_timeout=header_timeout,
            body_timeout=body_timeout,
            keep_alive=keep_alive,
            on_refused=on_refused,
            on_lost=self._on_lost,
        )
        shortest = min(header_timeout, body_timeout, keep_alive) / 8
        self._period = min(max(shortest, _SHORTEST_PERIOD), _LONGEST_PERIOD)
        self._loop = asyncio.get_running_loop()
        self._ticked = self._loop.time()
        self._shared.date(formatdate(usegmt=True).encode())
        # Handshakes in progress, and when they began, on the clock of the sweeps.
        self._beginning = dict[asyncio.Task[None], float]()
        self._count = 0
        self._accepting, self._is_full = False, False
        self._quiet_until = 0.0
        self._ended = anyio.Event()

    @property
    def connections(self) -> int:
        return self._count

    def reload_certificate(self) -> None:
        """Read both files again, for new connections. Raises SettingsError."""
        self._tls = tls(self._settings.certificate, self._settings.private_key)

    async def serve(self, task_status: TaskStatus["InboundListener"]) -> None:
        for each in self._sockets:
            each.settimeout(0)
        try:
            self._accept()
            async with anyio.create_task_group() as group:
                group.start_soon(self._sweep)
                task_status.started(self)
                await self._ended.wait()
                group.cancel_scope.cancel()
        finally:
            self._close_sockets()
            await self._abort()

    async def drain(self, within: float) -> None:
        """Let requests and connections end; abort the remaining ones after `within` seconds."""
        self._shared.draining = True
        for each in self._sockets:
            self._take(each, _MOST_QUEUED)
        self._close_sockets()
        for connection in self._all():
            connection.drain()
        self._end_if_done()
        with anyio.move_on_after(within):
            await self._ended.wait()
        self._ended.set()

    # ------------------------------------------------------------------ accepting

    def _accept(self) -> None:
        self._accepting, self._is_full = True, False
        for each in self._sockets:
            self._loop.add_reader(each, self._on_ready, each)

    def _pause(self) -> None:
        self._accepting = False
        for each in self._sockets:
            self._loop.remove_reader(each)

    def _on_ready(self, ready: socket.socket) -> None:
        room = self._settings.max_connections - self._count
        if room <= 0:
            self._full("max_connections")
        elif self._take(ready, min(_ACCEPTED_AT_ONCE, room)) == _ACCEPTED_AT_ONCE:
            self._pause()
            self._loop.call_later(_TURN_SECONDS, self._go_on)

    def _full(self, reason: str) -> None:
        self._pause()
        self._is_full = True
        self._on_refused("connections")
        if self._shared.now >= self._quiet_until:
            self._quiet_until = self._shared.now + _QUIET_SECONDS
            _log.warning(
                "no connection is accepted until one ends", reason=reason, open=self._count
            )

    def _take(self, ready: socket.socket, most: int) -> int:
        for taken in range(most):
            try:
                accepted, _address = ready.accept()
            except (BlockingIOError, InterruptedError, ConnectionError):
                return taken
            except OSError as error:  # no descriptors or no memory left
                if self._accepting:
                    self._full(error.strerror or str(error))
                return taken
            accepted.settimeout(0)
            self._count += 1
            begin = self._loop.create_task(self._begin(accepted))
            self._beginning[begin] = self._shared.now
            begin.add_done_callback(self._beginning.pop)
        return most

    async def _begin(self, accepted: socket.socket) -> None:
        connection = InboundConnection(self._shared)
        times: dict[str, float] = {}
        if self._tls is not None:
            handshake = self._settings.header_timeout.total_seconds()
            times = {
                "ssl_handshake_timeout": handshake,
                "ssl_shutdown_timeout": _TLS_SHUTDOWN_SECONDS,
            }
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection, accepted, ssl=self._tls, **times
            )
        except OSError:  # also ssl.SSLError and TimeoutError
            if self._tls is not None:
                self._on_refused("tls_handshake")
        finally:
            if not connection.is_made:
                accepted.close()
                self._on_lost()

    def _on_lost(self) -> None:
        self._count -= 1
        self._end_if_done()
        self._go_on()

    def _go_on(self) -> None:
        """Accept again after a turn, or if there is room for another connection."""
        has_room = self._count < self._settings.max_connections
        if not self._accepting and self._sockets and (has_room or not self._is_full):
            self._accept()  # if there is no room, the next connection reports the full listener

    def _close_sockets(self) -> None:
        self._pause()
        while self._sockets:
            self._sockets.pop().close()

    # ------------------------------------------------------------------ ending

    def _all(self) -> list[InboundConnection]:
        return [
            each for each in self._shared.state.connections if isinstance(each, InboundConnection)
        ]

    async def _abort(self) -> None:
        for connection in self._all():
            connection.abort()
        tasks = {*self._beginning, *self._shared.state.tasks}
        for task in tasks:
            task.cancel()
        if tasks:
            with anyio.CancelScope(shield=True):
                await asyncio.wait(tasks, timeout=_CANCELLING_SECONDS)

    def _end_if_done(self) -> None:
        if self._shared.draining and not self._count:
            self._ended.set()

    # ------------------------------------------------------------------ the sweep

    async def _sweep(self) -> None:
        while True:
            await anyio.sleep(self._period)
            now = self._tick()
            connections = self._all()
            idle = []
            for connection in connections:
                if connection.deadline <= now:
                    if connection.is_idle:
                        idle.append(connection)
                    else:
                        connection.expire()
            idle.extend(self._idle_for_long(connections, now))
            for connection in without_news(idle):
                connection.close_idle()
            if self._is_full:
                self._end_slow(connections, now)
            self._go_on()

    def _tick(self) -> float:
        """Advance the clock, except by the time that the loop stood still: no sender is late."""
        now = self._loop.time()
        self._shared.now += min(now - self._ticked, 2 * self._period)
        if int(now) != int(self._ticked):
            self._shared.date(formatdate(usegmt=True).encode())
        self._ticked = now
        return self._shared.now

    def _idle_for_long(
        self, connections: Sequence[InboundConnection], now: float
    ) -> Sequence[InboundConnection]:
        if not (self._shared.draining or self._is_full):
            return ()
        # `idle_since` is exact to one period.
        since = now - _IDLE_SECONDS - self._period
        found = [each for each in connections if each.is_idle and each.idle_since <= since]
        if self._shared.draining:
            return found
        return heapq.nsmallest(self._evicted, found, key=lambda each: each.idle_since)

    @property
    def _evicted(self) -> int:
        return max(_EVICTED_AT_LEAST, self._settings.max_connections // _EVICTED_SHARE)

    def _end_slow(self, connections: Sequence[InboundConnection], now: float) -> None:
        """End slow requests: a client that sends byte by byte must not keep other clients out."""
        patience = _IDLE_SECONDS + self._period
        slow = [each for each in connections if each.is_slow(patience)]
        held = Counter(each.address for each in slow)
        slow.sort(key=lambda each: (-held[each.address], each.began))
        for each in slow[: self._evicted]:
            each.expire()
        begun = [task for task, began in self._beginning.items() if now - began >= patience]
        for task in begun[: self._evicted]:
            self._on_refused("tls_handshake")
            task.cancel()


def without_news(idle: Sequence[InboundConnection]) -> Sequence[InboundConnection]:
    """Leave out connections for which the kernel has unread data."""
    if not idle:
        return ()
    poll = select.poll()
    files = {each.fileno(): each for each in idle}
    for file in files:
        if file >= 0:
            poll.register(file, select.POLLIN)
    for file, _ in poll.poll(0):
        with contextlib.suppress(KeyError):
            del files[file]
    return list(files.values())
