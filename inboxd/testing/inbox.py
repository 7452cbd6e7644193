"""A test's own inbox: to write to, to drain, and to inspect.

Owns `TestInbox`. Promises: its methods block, in sync and async tests alike; it runs the daemon's
own worker with the plugins' handlers, on a database that no other test uses.
Known limits: while a method blocks, so does the event loop of an async test; rows of an open
transaction are not seen. *See:* `draining`, `drained`, `matching`.
"""

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar, Unpack, overload

from pydantic import ValidationError

from inboxd.api.connection import Record
from inboxd.api.handlers import Handlers
from inboxd.client import (
    BatchSent,
    CommandPayload,
    Emitted,
    EventPayload,
    Inbox,
    NewCommand,
    NewEvent,
    NewStep,
    Sent,
)
from inboxd.client.batches import BatchFields
from inboxd.daemon.declaring import WorkerDeclaration, declare
from inboxd.errors import DrainTimeout, HandlersFailed, SettingsError, UsageError
from inboxd.model import duration
from inboxd.model.duration import Duration
from inboxd.model.naming import Named, command_of, event_of
from inboxd.model.row_columns import CommandFields, EventFields
from inboxd.registry.plugins import build_registry, configured
from inboxd.registry.registry import Registry
from inboxd.settings import Settings
from inboxd.settings.wording import problem
from inboxd.store import controls, partitions
from inboxd.store import testing as store
from inboxd.store.connections import Connection
from inboxd.store.session import Session, connect
from inboxd.telemetry import logs
from inboxd.testing.drained import Drained, Stored, failures, overdue, sorted_out, still_due
from inboxd.testing.draining import drain
from inboxd.testing.loop_thread import LoopThread
from inboxd.testing.matching import (
    ANYTHING,
    WantedRow,
    checked,
    matching,
    missing,
    type_of,
    unwanted,
)
from inboxd.testing.stored import StoredCommand, StoredEvent

T = TypeVar("T")
S = TypeVar("S", StoredEvent, StoredCommand)

# Seconds that a worker may take after its time limit to release its rows and end its hooks.
_GOODBYE_SECONDS = 20.0
# Days of history that are made at the time to which a test travels; the worker makes more.
_HISTORY_DAYS = 1
# A test's worker needs no HTTP port and no wake-ups, since `drain` makes it look; settled rows stay
# for inspection, however far ahead in time the test travels.
_OWN: Mapping[str, Mapping[str, Any]] = {
    "history": {"events": "forever", "commands": "forever"},
    "http": {"enabled": False},
    "wakeups": {"mode": "off"},
    "worker": {"name": "pytest"},
}


class TestInbox:
    """An inbox for one test. `dsn`: its database's URL, for the code that is tested."""

    __test__ = False  # pytest must not collect this class as tests

    def __init__(
        self,
        dsn: str,
        plugins: Registry,
        settings: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
        resources: Mapping[Any, object] = MappingProxyType({}),
    ) -> None:
        """Open the inbox in a migrated database, and declare the plugins there.

        resources: by type, in place of the lifespans' own.
        """
        logs.follow()
        self.dsn = dsn
        self._settings = _settings(dsn, settings)
        self._registry = configured(plugins, self._settings)
        self._resources = resources
        self._client = Inbox(self._settings.database.schema_name)
        self._travelled = timedelta()
        self._loop = LoopThread()
        try:
            self._session = self._loop.run(self._open)
        except BaseException:
            self._loop.close()
            raise

    def __repr__(self) -> str:
        return f"TestInbox({self.dsn!r})"

    def close(self) -> None:
        """Close the connection to the database."""
        if not self._loop.stuck:
            self._loop.run(self._session.connection.close)
        self._loop.close()

    # ------------------------------------------------------------------------------------ writing

    @overload
    def emit(self, type: str, payload: object = None, **fields: Unpack[EventFields]) -> Emitted: ...

    @overload
    def emit(self, type: EventPayload, **fields: Unpack[EventFields]) -> Emitted: ...

    def emit(self, type: Any, payload: object = None, **fields: Unpack[EventFields]) -> Emitted:
        """Write an event, as a producer does; the arguments are as in `inboxd.client`."""
        return self._write(lambda to: self._client.emit(to, type, payload, **fields))

    def emit_many(self, events: Iterable[NewEvent | EventPayload]) -> list[Emitted]:
        """Write events, in the order given."""
        return self._write(lambda to: self._client.emit_many(to, events))

    @overload
    def send(self, type: str, payload: object = None, **fields: Unpack[CommandFields]) -> Sent: ...

    @overload
    def send(self, type: CommandPayload, **fields: Unpack[CommandFields]) -> Sent: ...

    def send(self, type: Any, payload: object = None, **fields: Unpack[CommandFields]) -> Sent:
        """Write a command, as a producer does; the arguments are as in `inboxd.client`."""
        return self._write(lambda to: self._client.send(to, type, payload, **fields))

    def send_many(self, commands: Iterable[NewCommand | CommandPayload]) -> list[Sent]:
        """Write commands, in the order given."""
        return self._write(lambda to: self._client.send_many(to, commands))

    def send_batch(
        self,
        name: str,
        commands: Iterable[NewCommand | CommandPayload],
        **fields: Unpack[BatchFields],
    ) -> BatchSent:
        """Write a batch of commands, with its continuations."""
        return self._write(lambda to: self._client.send_batch(to, name, commands, **fields))

    def send_workflow(
        self, name: str, steps: Iterable[NewStep], **fields: Unpack[BatchFields]
    ) -> BatchSent:
        """Write a workflow."""
        return self._write(lambda to: self._client.send_workflow(to, name, steps, **fields))

    # ----------------------------------------------------------------------------------- draining

    def drain(self, *, check: bool = True, timeout: Duration = "30s") -> Drained:
        """Run a worker until no row is due, including rows that its handlers send and emit.

        Raises HandlersFailed when a handler failed, with its traceback, unless `check` is False;
        DrainTimeout when rows are still due after `timeout`, with the reasons, or when a hook does
        not end.
        """
        __tracebackhide__ = True
        within = duration.seconds(timeout)
        drained, late, now = self._loop.run(partial(self._drain, within), within + _GOODBYE_SECONDS)
        if late is not None:
            raise DrainTimeout(late)
        if check and drained.failed:
            raise HandlersFailed(failures(drained, now))
        return drained

    # ---------------------------------------------------------------------------------------- time

    def travel(self, by: Duration | None = None, *, to: datetime | None = None) -> datetime:
        """Move the time of the database and of `ctx.now()`: `travel("1h")`, or to a time.

        Nothing runs by itself: `drain` then runs rows that have become due. Returns the new time.
        """
        __tracebackhide__ = True
        if (by is None) is (to is None):
            raise UsageError('Give a duration, travel("1h"), or a time, travel(to=…).')
        if to is not None and to.tzinfo is None:
            raise UsageError(f"{to!r} has no time zone: give it one, such as UTC.")
        seconds = None if by is None else duration.seconds(by)
        return self._loop.run(partial(self._travel, seconds, to))

    def now(self) -> datetime:
        """The time in the database and for `ctx.now()`."""
        return datetime.now(UTC) + self._travelled

    # ------------------------------------------------------------------------------------- looking

    def events(self, type: str | None = None, **columns: object) -> list[StoredEvent]:
        """All events of a type, or of all types, in any status, in the order of ids.

        `columns` filter them: `topic="loyalty"`, `status="succeeded"`.
        """
        checked(StoredEvent, columns)
        return _chosen(self._loop.run(partial(self._events, type)), columns)

    def commands(self, type: str | None = None, **columns: object) -> list[StoredCommand]:
        """All commands of a type, or of all types, as `events`: `queue="http"`."""
        checked(StoredCommand, columns)
        return _chosen(self._loop.run(partial(self._commands, type)), columns)

    def assert_emitted(
        self,
        type: str | EventPayload,
        payload: object = ANYTHING,
        *,
        count: int | None = None,
        **columns: object,
    ) -> StoredEvent:
        """Assert that there is such an event (or exactly `count`); returns the newest.

        `payload` is a dict of members that it must have, or a model or dataclass that it must
        equal.
        """
        __tracebackhide__ = True
        checked(StoredEvent, columns)
        wanted = _wanted("event", type, payload, columns, event_of(type.__class__))
        return _found(self.events(), wanted, count)

    def refute_emitted(
        self, type: str | EventPayload, payload: object = ANYTHING, **columns: object
    ) -> None:
        """Assert that there is no such event."""
        __tracebackhide__ = True
        checked(StoredEvent, columns)
        _not_found(
            self.events(), _wanted("event", type, payload, columns, event_of(type.__class__))
        )

    def assert_sent(
        self,
        type: str | CommandPayload,
        payload: object = ANYTHING,
        *,
        count: int | None = None,
        **columns: object,
    ) -> StoredCommand:
        """Assert that there is such a command; see `assert_emitted`."""
        __tracebackhide__ = True
        checked(StoredCommand, columns)
        wanted = _wanted("command", type, payload, columns, command_of(type.__class__))
        return _found(self.commands(), wanted, count)

    def refute_sent(
        self, type: str | CommandPayload, payload: object = ANYTHING, **columns: object
    ) -> None:
        """Assert that there is no such command."""
        __tracebackhide__ = True
        checked(StoredCommand, columns)
        _not_found(
            self.commands(), _wanted("command", type, payload, columns, command_of(type.__class__))
        )

    def execute(self, sql: str, *arguments: object) -> str:
        """Run a statement in the database (several without arguments), and commit it."""
        return self._loop.run(lambda: self._session.connection.execute(sql, *arguments))

    def fetch(self, sql: str, *arguments: object) -> Sequence[Record]:
        """Return the rows of a query."""
        return self._loop.run(lambda: self._session.connection.fetch(sql, *arguments))

    def fetchval(self, sql: str, *arguments: object) -> Any:
        """Return the first value of a query's first row."""
        return self._loop.run(lambda: self._session.connection.fetchval(sql, *arguments))

    # ----------------------------------------------------------------------------- in the loop's

    async def _open(self) -> Session:
        session = await connect(self._settings.database, "test", plans={})
        declaration = WorkerDeclaration(self._settings, self._registry)
        begin = partial(session.transaction, isolation="read_committed")
        await declare(session, begin, declaration)
        return session

    def _write(self, write: Callable[[Connection], Coroutine[Any, Any, T]]) -> T:
        return self._loop.run(lambda: write(self._session.connection))

    async def _drain(self, within: float) -> tuple[Drained, str | None, datetime]:
        before = {(row.kind, row.id): row for row in await self._rows()}
        running = await drain(
            self._settings,
            self._registry,
            self._session,
            within=within,
            time=self.now,
            resources=self._resources,
        )
        drained = sorted_out(before, await self._rows())
        if running is None:
            return drained, None, self.now()
        rows = await controls.read(self._session)
        paused = {(row["kind"], row["name"]) for row in rows}
        late = overdue(within, running, still_due(drained, self._registry, paused, self.now()))
        return drained, late, self.now()

    async def _travel(self, seconds: float | None, to: datetime | None) -> datetime:
        if not await store.has_clock(self._session):
            raise UsageError(
                "This database has the server's clock, which cannot be moved: let the fixture "
                "`inboxd_database` make it."
            )
        travelled = await store.travel(self._session, seconds, to)
        self._travelled = timedelta(seconds=travelled.seconds)
        await partitions.make(self._session, _HISTORY_DAYS)
        return travelled.now

    async def _events(self, type_: str | None) -> list[StoredEvent]:
        texts = await store.rows(self._session, "events", type_)
        return [StoredEvent.model_validate_json(text) for text in texts]

    async def _commands(self, type_: str | None) -> list[StoredCommand]:
        texts = await store.rows(self._session, "commands", type_)
        return [StoredCommand.model_validate_json(text) for text in texts]

    async def _rows(self) -> list[Stored]:
        return [*await self._events(None), *await self._commands(None)]


def registry_of(given: Handlers | Sequence[Handlers]) -> Registry:
    """The registry of handlers that a test gives. Raises PluginError."""
    several = [given] if isinstance(given, Handlers) else given
    return build_registry((f"Handlers({each.name!r})", each) for each in several)


def _settings(dsn: str, given: Mapping[str, Mapping[str, Any]]) -> Settings:
    """The settings of a test's worker; the test's own win. Raises SettingsError."""
    sections = {*_OWN, *given, "database"}
    values = {
        name: {**_OWN.get(name, {}), **given.get(name, {})} for name in sections - {"database"}
    }
    values["database"] = {**given.get("database", {}), "dsn": dsn}
    try:
        return Settings.merged(values, {})
    except ValidationError as error:
        wrong = [problem(each, ()) for each in error.errors()]
    raise SettingsError("\n".join(["inboxd_settings:", *wrong]))


def _chosen(rows: list[S], columns: Mapping[str, object]) -> list[S]:
    return [row for row in rows if all(getattr(row, name) == columns[name] for name in columns)]


def _wanted(
    noun: str, given: object, payload: object, columns: Mapping[str, object], named: Named | None
) -> WantedRow:
    if not isinstance(given, str) and payload is ANYTHING:
        payload = given
    return WantedRow(noun, type_of(noun, given, named), payload, columns)


def _found(rows: list[S], wanted: WantedRow, count: int | None) -> S:
    __tracebackhide__ = True
    found = matching(rows, wanted)
    if not found or (count is not None and len(found) != count):
        raise AssertionError(missing(rows, wanted, len(found), count))
    return found[-1]


def _not_found(rows: list[S], wanted: WantedRow) -> None:
    __tracebackhide__ = True
    if found := matching(rows, wanted):
        raise AssertionError(unwanted(found, wanted))
