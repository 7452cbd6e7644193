"""A receiver's other use of the database: checks the schema, reads pauses, writes its row.

It waits for an unreachable database, but one that refuses is an error. The last known pauses stay
in force. Known limit: a pause that is made during an outage begins after it.
"""

import time
from collections.abc import Callable, Mapping

import anyio

from inboxd.errors import DatabaseError
from inboxd.inbound.sources import CompiledSource
from inboxd.model.outcome import explain
from inboxd.model.wording import span
from inboxd.store import controls, migrations, receivers, row_security
from inboxd.store.connections import explained, is_away
from inboxd.store.outage import OUTAGE
from inboxd.store.pools import Pool, borrow
from inboxd.store.receivers import ReceiverIdentity, SpoolSight, State
from inboxd.store.session import Session
from inboxd.telemetry import logs

_log = logs.get_logger(__name__)

# Seconds between two checks.
_EVERY = 1.0
# Time limit for reporting the end, and for a connection of the pool, in seconds.
_PATIENCE = 5.0


class ReceiverWatch:
    def __init__(
        self,
        pool: Pool,
        me: ReceiverIdentity,
        beat: float,
        spool: Callable[[], SpoolSight] = SpoolSight,
    ) -> None:
        """beat: seconds between two signs of life."""
        self.has_answered = False
        self._pool = pool
        self._me = me
        self._beat = beat
        self._spool = spool
        self._shown = SpoolSight()
        self._sources: Mapping[str, CompiledSource] = {}
        self._refused: frozenset[str] = frozenset()
        self._state: State = "running"
        self._fits = False
        self._joined = False
        self._trouble: str | None = None
        self._answered_at = 0.0
        self._due = 0.0
        self._attention = anyio.Event()

    @property
    def last_answer(self) -> str:
        """The time of the database's last answer, as a text for people."""
        if not self.has_answered:
            return "the database has not answered yet"
        return f"the database answered {span(time.monotonic() - self._answered_at)} ago"

    def reload(self, sources: Mapping[str, CompiledSource]) -> None:
        self._sources = sources
        self._refuse()
        self._look_soon()

    def drain(self) -> None:
        self._state = "draining"
        self._look_soon()

    async def begin(self) -> None:
        """Raises SchemaError or DatabaseError, unless the database is unreachable."""
        try:
            with explained(asked=self._pool.where):
                await self._look()
        except DatabaseError as error:
            if not is_away(error):
                raise
            self._warn(error)

    async def run(self) -> None:
        while True:
            with anyio.move_on_after(_EVERY):
                await self._attention.wait()
            self._attention = anyio.Event()
            try:
                await self._look()
            except Exception as error:  # noqa: BLE001 - the next check must follow
                self._warn(error)
            else:
                if self._trouble is not None:
                    _log.info("the receiver can use the database again")
                self._trouble = None
                OUTAGE.over()

    async def leave(self) -> None:
        """Show that the receiver has ended; without a database, missing signs of life show it."""
        if not self._joined:
            return
        self._state = "stopped"
        with anyio.CancelScope(shield=True), anyio.move_on_after(_PATIENCE):
            try:
                async with borrow(self._pool, _PATIENCE) as session:
                    await self._show(session)
            except Exception as error:  # noqa: BLE001 - the receiver leaves anyway
                _log.warning(
                    "the receiver's end could not be recorded", reason=explain(error).error
                )

    def _look_soon(self) -> None:
        self._due = 0.0
        self._attention.set()

    async def _look(self) -> None:
        async with borrow(self._pool, _PATIENCE) as session:
            if not self._fits:
                await row_security.check(session)
                await migrations.check(session)
                self._fits = True
            rows = await controls.read(session)
            refusing = (row for row in rows if row["kind"] == "source" and row["mode"] == "refuse")
            refused = frozenset(row["name"] for row in refusing)
            due = time.monotonic() >= self._due or self._spool() != self._shown
            if due or self._refused - refused:  # a pause that is missing might be hidden only
                await row_security.check(session)
            self._obey(refused)
            if due:
                self._due = time.monotonic() + self._beat
                await self._show(session)
        self.has_answered = True
        self._answered_at = time.monotonic()

    async def _show(self, session: Session) -> None:
        if not self._joined:
            await receivers.forget(session)
            self._joined = True
        holds = [name for name, each in self._sources.items() if each.settings.paused == "hold"]
        self._shown = self._spool()
        given = ([*self._sources], holds, self._state, self._shown)
        await receivers.show(session, self._me, *given)

    def _obey(self, refused: frozenset[str]) -> None:
        if refused != self._refused:
            _log.info(
                "controls changed",
                refused=sorted(refused - self._refused),
                received_again=sorted(self._refused - refused),
            )
            self._refused = refused
            self._refuse()

    def _refuse(self) -> None:
        for name, source in self._sources.items():
            source.refuses = source.settings.paused == "refuse" or name in self._refused

    def _warn(self, error: Exception) -> None:
        self._due = 0.0
        trouble = explain(error).error
        if trouble != self._trouble:
            _log.warning("the receiver cannot use the database", reason=trouble)
        self._trouble = trouble
