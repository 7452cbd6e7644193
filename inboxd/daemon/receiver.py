"""The receiver that a process hosts: composed, watched, and ended in order.

Without a database it spools, or answers 503; at a stop it accepts no new connections, and answers
the requests under way. Reloaded settings are taken over as a whole or not at all, and no connection
is lost. Known limit: a request that is answered 503 is lost if the sender does not send it again.
"""

import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from functools import partial
from importlib.metadata import version
from uuid import uuid4

import anyio

from inboxd.admin.server import HealthPart
from inboxd.daemon import sockets
from inboxd.daemon.garbage import OF_REQUESTS, look_for_garbage_seldom
from inboxd.daemon.process import Process
from inboxd.daemon.process_number import process_number
from inboxd.daemon.receiver_watch import ReceiverWatch
from inboxd.errors import SettingsError
from inboxd.inbound.application import Receiver
from inboxd.inbound.certificate import tls
from inboxd.inbound.commits import Commit, commit_nothing
from inboxd.inbound.compiling import compile_sources
from inboxd.inbound.group_commit import GroupCommit, Write, WriteSome
from inboxd.inbound.listener import InboundListener, listen
from inboxd.inbound.page_writer import page_writer
from inboxd.inbound.sources import Sources
from inboxd.inbound.spool.erasures import without_erased
from inboxd.inbound.spool.spool import DrainWrites, Spool, spooling
from inboxd.settings import Database, Settings
from inboxd.store import controls, receipts
from inboxd.store.pools import Pool, borrow, open_pool
from inboxd.store.receivers import ReceiverIdentity, SpoolSight
from inboxd.telemetry import logs

_log = logs.get_logger(__name__)

# Shares of `answer_within`: a page that hangs is abandoned, and tried again, before the answers.
_PAGE_SHARE = 0.7
_STATEMENT_SHARE = 0.6
_CONNECT_SHARE = 0.5
# Seconds for a single spooled receipt whose page took too long.
_ALONE_SECONDS = 30.0
# Minimum seconds that a drain leaves the listener for answers.
_LAST_ANSWERS_SECONDS = 1.0


class HostedReceiver:
    def __init__(self, process: Process) -> None:
        """Compile the sources. Raises SettingsError or PluginError."""
        self._process = process
        self._settings = process.settings
        self._sources = compile_sources(self._settings.inbound)
        self._metrics = process.metrics.webhooks
        self._watch: ReceiverWatch | None = None
        self._spool: Spool | None = None
        self._app: Receiver | None = None
        self._listener: InboundListener | None = None
        self._stop = anyio.Event()

    def ready(self) -> Sequence[HealthPart]:
        """It stays ready in an outage: other receivers could not reach the database either."""
        if self._listener is None or self._watch is None:
            return [HealthPart("receiver", ok=False, detail="starting")]
        if self._stop.is_set():
            return [HealthPart("receiver", ok=False, detail="draining")]
        if self._spool is not None:
            trouble = self._spool.state.trouble
            ok, detail = trouble is None, "" if trouble is None else str(trouble)
            return [
                HealthPart("receiver", ok=True, detail=self._watch.last_answer),
                HealthPart("spool", ok=ok, detail=detail),
            ]
        return [HealthPart("receiver", ok=self._watch.has_answered, detail=self._watch.last_answer)]

    def drain(self) -> Mapping[str, object]:
        self._stop.set()
        return {"requests": 0 if self._app is None else self._app.in_flight.requests}

    def prepare(self, new: Settings) -> Callable[[Settings], None]:
        sources = compile_sources(new.inbound)
        http = self._settings.inbound.http
        tls(http.certificate, http.private_key)

        def reload(settings: Settings) -> None:
            self._settings, self._sources = settings, sources
            if self._app is not None:
                self._app.reload(sources)
            if self._watch is not None:
                self._watch.reload(sources)
            _doubt(sources)
            if self._listener is not None:
                with _logged():
                    self._listener.reload_certificate()

        return reload

    async def run(self, on_ready: Callable[[], None]) -> None:
        http, database = self._settings.inbound.http, self._settings.database
        within = http.answer_within.total_seconds()
        # More than pages need: watch, drain and probe never wait for pages, nor for each other.
        size = http.connections + (1 if self._settings.inbound.spool.path is None else 3)
        async with (
            open_pool(bounded(database, within), "receiver", size) as pool,
            self._spooling(pool) as (write, spool),
        ):
            self._spool = spool
            commit = GroupCommit(
                write,
                on_written=self._metrics.written,
                writers=http.connections,
                most_waiting=http.max_requests,
                within=within,
            )
            self._app = Receiver(http, self._sources, commit, self._metrics)
            beat = self._settings.worker.heartbeat_interval.total_seconds()
            sight = SpoolSight if spool is None else spool.sight
            watch = self._watch = ReceiverWatch(pool, _introduce(self._settings), beat, sight)
            watch.reload(self._sources)
            await watch.begin()
            try:
                await self._receive(commit, watch, on_ready)
            finally:
                await watch.leave()

    @asynccontextmanager
    async def _spooling(self, pool: Pool) -> AsyncIterator[tuple[WriteSome, Spool | None]]:
        """Yield the function that writes a page: to the database, or with a spool behind it."""
        within = _PAGE_SHARE * self._settings.inbound.http.answer_within.total_seconds()
        settings, memory = self._settings.inbound.spool, self._settings.history.receipts
        if settings.path is None:
            yield page_writer(pool, within), None
            return
        probe = partial(_ask, pool, settings.after.total_seconds())
        writes = partial(page_writer, pool)

        def drained(pool: Pool, within: float) -> Write:
            write = page_writer(pool, within)
            return without_erased(write, partial(_erased, pool, within))

        def commit(within: float) -> Commit:
            return partial(commit_nothing, pool, within)

        patient = _bounded_alone(self._settings.database)
        async with open_pool(patient, "receiver, spool", 1) as by_itself:
            ways = DrainWrites(
                partial(drained, pool), drained(by_itself, 1.5 * _ALONE_SECONDS), commit
            )
            with spooling(settings, settings.path, writes, probe, memory, ways) as spool:
                self._metrics.watch_spool(lambda: spool.state)
                yield spool.writer.write, spool

    async def _receive(
        self, commit: GroupCommit, watch: ReceiverWatch, on_ready: Callable[[], None]
    ) -> None:
        http = self._settings.inbound.http
        own = self._process.listeners[sockets.INBOUND]
        async with anyio.create_task_group() as group:
            await group.start(commit.run)
            group.start_soon(watch.run)
            if self._spool is not None:
                group.start_soon(self._spool.run)
            face = partial(listen, sockets=own, on_refused=partial(self._metrics.refused, ""))
            listener = self._listener = await group.start(face, http, self._app)
            at = [sockets.url(each) for each in own]
            _log.info("receiving webhooks", at=at, sources=sorted(self._sources))
            _doubt(self._sources)
            if not self._sources:
                _log.warning("no source of webhooks is configured: all requests are answered 404")
            on_ready()
            look_for_garbage_seldom(OF_REQUESTS)
            await self._stop.wait()
            watch.drain()
            timeout = self._settings.worker.drain_timeout.total_seconds()
            await listener.drain(max(_LAST_ANSWERS_SECONDS, timeout - _LAST_ANSWERS_SECONDS))
            group.cancel_scope.cancel()


async def _ask(pool: Pool, within: float) -> None:
    """Read something small, to see whether the database answers."""
    async with borrow(pool, within) as session:
        with anyio.fail_after(within):
            await controls.read(session)


async def _erased(
    pool: Pool, within: float, subjects: Sequence[str], since: datetime
) -> dict[str, datetime]:
    async with borrow(pool, within) as session:
        with anyio.fail_after(within):
            return await receipts.erased(session, subjects, since)


def bounded(database: Database, within: float) -> Database:
    """Settings of sessions in which requests wait for statements."""

    def at_most(own: timedelta, share: float) -> timedelta:
        return min(own, timedelta(seconds=share * within))

    return database.model_copy(
        update={
            "connect_timeout": at_most(database.connect_timeout, _CONNECT_SHARE),
            "statement_timeout": at_most(database.statement_timeout, _STATEMENT_SHARE),
            "lock_timeout": at_most(database.lock_timeout, _CONNECT_SHARE),
        }
    )


def _bounded_alone(database: Database) -> Database:
    """Settings of a session for one receipt; they distinguish a wait for a lock from slowness."""
    statement = min(database.statement_timeout, timedelta(seconds=_ALONE_SECONDS))
    return database.model_copy(
        update={
            "statement_timeout": statement,
            "lock_timeout": min(database.lock_timeout, statement / 2),
        }
    )


def _doubt(sources: Sources) -> None:
    """Warn about doubtful authentication of sources; it may be intended."""
    for name, source in sources.items():
        for doubt in source.verifier.doubts:
            _log.warning("the authentication of a source may be too weak", source=name, found=doubt)


@contextmanager
def _logged() -> Iterator[None]:
    """Log a certificate that became invalid after its check: the previous one stays in use."""
    try:
        yield
    except SettingsError as error:
        _log.error("the certificate is not reloaded", reason=str(error))


def _introduce(settings: Settings) -> ReceiverIdentity:
    return ReceiverIdentity(
        id=uuid4(),
        name=settings.worker.name,
        number=process_number(),
        host=socket.gethostname(),
        pid=os.getpid(),
        version=version("inboxd"),
    )
