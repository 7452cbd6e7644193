"""`inboxd rehearse`: runs a row of the live database here, and rolls back the handlers' writes.

It names effects that cannot be undone, and asks before it runs; without a terminal it needs
`--yes`. Ctrl-C and TERM stop the handlers as a worker would, a second signal ends the process at
once; the server rolls back an unfinished transaction. Known limit: while a debugger holds the loop,
Ctrl-C goes to the debugger.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from inboxd.cli import columns
from inboxd.cli.exits import BY_SIGNAL, Exit
from inboxd.cli.options import Looking
from inboxd.cli.output import Document, Fields, Part, TableColumn, print_json, remark, show
from inboxd.errors import NotFound, UsageError
from inboxd.model.row_id import read_row_id
from inboxd.model.wording import plural, span

if TYPE_CHECKING:
    from inboxd.api.records import Handler
    from inboxd.features.rehearsal.rehearsal import RehearsalTerms
    from inboxd.features.rehearsal.report import Rehearsal
    from inboxd.features.rehearsal.store import RehearsedRow
    from inboxd.registry.registry import Registry
    from inboxd.settings import Settings

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# How long a transaction may be idle under a debugger.
_DEBUGGER_IDLE = timedelta(minutes=10)

Kind = Annotated[
    Literal["event", "command"], typer.Argument(metavar="KIND", help="event or command.")
]
Id = Annotated[str, typer.Argument(metavar="ID", help="Row number or uuid.", show_default=False)]


@dataclass(frozen=True, kw_only=True)
class Rehearsing(Looking):
    payload: Annotated[
        bool, typer.Option("--payload", help="Also show the payloads that would be sent.")
    ] = False
    alone: Annotated[
        bool, typer.Option("--alone", help="Run an event of a batch topic as a chunk of one.")
    ] = False
    debugger: Annotated[
        bool,
        typer.Option(
            "--debugger",
            help="No time limit for the handler; if it fails, open pdb at its frame.",
        ),
    ] = False
    lock_timeout: Annotated[
        str,
        typer.Option(metavar="DURATION", help="How long a statement may wait for a lock."),
    ] = "2s"
    statement_timeout: Annotated[
        str, typer.Option(metavar="DURATION", help="How long a statement may take.")
    ] = "30s"
    idle_timeout: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="How long the transaction may be idle, as in a debugger. Default: "
            "database.idle_in_transaction_timeout, with --debugger 10m.",
            show_default=False,
        ),
    ] = None
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask; required without a terminal.")
    ] = False

    def terms(self, settings: "Settings") -> "RehearsalTerms":
        from inboxd.features.rehearsal.rehearsal import RehearsalTerms

        usual = settings.database.idle_in_transaction_timeout
        idle = _DEBUGGER_IDLE if self.debugger else usual
        return RehearsalTerms(
            lock_timeout=_bound("--lock-timeout", self.lock_timeout),
            statement_timeout=_bound("--statement-timeout", self.statement_timeout),
            idle_timeout=_bound("--idle-timeout", self.idle_timeout) if self.idle_timeout else idle,
            unhurried=self.debugger,
            alone=self.alone,
        )


def rehearse(kind: Kind, id: Id, *, given: Rehearsing) -> None:
    """Run the handlers of an event or command here, report the result, and roll it back.

    The row does not change in any status; a worker may run it at the same time. Effects outside the
    database are not undone. The exit code is 0 if the row would succeed or be deferred, else 1.
    """
    from inboxd.features.rehearsal.rehearsal import handlers_of

    if given.json and given.debugger:
        raise UsageError("give either --json or --debugger: a debugger needs a terminal.")
    wanted = read_row_id(id)
    if not given.yes and not sys.stdin.isatty():
        raise UsageError(
            "a rehearsal runs the handlers, and their effects outside the database are not undone: "
            "without a terminal to ask, give --yes."
        )
    settings = given.settings
    terms = given.terms(settings)
    registry = _registry(settings)
    found = _find(given, kind, wanted)
    _warn(found, handlers_of(registry, found))
    if not given.yes:
        typer.confirm("Run it?", abort=True, err=True)
    told = _run(settings, registry, found, terms)
    if given.json:
        print_json(_as_json(told, found, payload=given.payload))
    else:
        given.print({}, _parts(told, found, payload=given.payload), told.remarks)
    if given.debugger and told.failure is not None:
        _post_mortem(told)
    code = Exit.OK if told.outcome in ("succeeded", "deferred") else Exit.PROBLEMS
    if told.left_behind:  # a running thread would keep this process alive
        _end(code)
    raise typer.Exit(code)


def _bound(option: str, text: str) -> timedelta:
    from inboxd.model import duration

    found = duration.parse(text)
    if found < timedelta(milliseconds=1):
        raise UsageError(f"{option} {text!r}: give at least 1ms; a rehearsal must not block.")
    return found


def _registry(settings: "Settings") -> "Registry":
    """Load all installed handlers, regardless of worker.topics."""
    from inboxd.registry.plugins import load_registry

    worker = settings.worker.model_copy(update={"topics": ()})
    return load_registry(settings.model_copy(update={"worker": worker}))


def _find(given: Rehearsing, kind: Literal["event", "command"], id: Any) -> "RehearsedRow":
    from inboxd.features.rehearsal import store

    found = given.ask(lambda session: store.find(session, kind, id))
    if found is None:
        raise NotFound(f"there is no {kind} {id}: look the id up with `inboxd {kind}s list`")
    return found


def _warn(found: "RehearsedRow", handlers: "list[Handler]") -> None:
    where = "topic" if found.kind == "event" else "queue"
    row = f"{found.kind} {found.row['id']} ({found.row['type']}, {where} {found.lane})"
    replay = ", as a replay would" if found.has_ended else ""
    names = ", ".join(each.name for each in handlers)
    remark(f"This runs {row} here{replay}. Its status: {found.status}. Handlers: {names}.")
    remark(
        "Undone: rows that the handlers write through ctx.connection, send or emit. NOT undone: "
        "effects of handlers and their resources elsewhere, such as HTTP requests, mail, files and "
        "other connections; and numbers taken from sequences."
    )
    remark("The row is neither claimed nor locked: a worker may run it at the same time.")


# ---------------------------------------------------------------------------------------- running


def _run(
    settings: "Settings", registry: "Registry", found: "RehearsedRow", terms: "RehearsalTerms"
) -> "Rehearsal":
    import anyio

    from inboxd.features.rehearsal.rehearsal import rehearse as do

    async def main() -> "Rehearsal | None":
        with anyio.CancelScope() as scope:
            interrupt.attach(scope)
            return await do(settings, registry, found, terms, _give_up)
        return None

    with _Interrupt.listening() as interrupt:
        told = anyio.run(main)
    if told is None:
        remark("inboxd: interrupted; everything is rolled back")
        # At once: while Python shuts down, a second signal would have its default effect.
        _end(BY_SIGNAL + interrupt.number)
    return told


def _end(code: int) -> NoReturn:
    """End this process now, even if threads still run."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


class _Interrupt:
    """The first signal cancels the rehearsal, a second one ends the process."""

    def __init__(self) -> None:
        self.number = 0
        self._cancel: Any = None

    @classmethod
    @contextmanager
    def listening(cls) -> Iterator["_Interrupt"]:
        interrupt = cls()
        before = {number: signal.signal(number, interrupt._heard) for number in _SIGNALS}
        try:
            yield interrupt
        finally:
            if not interrupt.number:  # otherwise the process ends: keep our handlers until then
                for number, handler in before.items():
                    signal.signal(number, handler)

    def attach(self, scope: Any) -> None:
        import asyncio

        loop = asyncio.get_running_loop()
        self._cancel = lambda: loop.call_soon_threadsafe(scope.cancel)
        if self.number:
            scope.cancel()

    def _heard(self, number: int, _frame: FrameType | None) -> None:
        if self.number:
            os._exit(BY_SIGNAL + number)
        self.number = number
        os.write(2, b"inboxd: stopping the handler; a second signal ends the process at once\n")
        if self._cancel is not None:
            self._cancel()


def _give_up(reason: str) -> None:
    """End the process, as a worker would; the server rolls the transaction back."""
    typer.echo(f"inboxd: {reason}; a worker would end its process here", err=True)
    os._exit(Exit.INTERNAL)


def _post_mortem(told: "Rehearsal") -> None:
    """Open pdb at the plugin's innermost frame, unless the failure is pdb's own exit."""
    import pdb  # noqa: T100 - for --debugger
    from bdb import BdbQuit

    assert told.failure is not None  # noqa: S101 - the caller has checked it
    if isinstance(told.failure, BdbQuit):
        return
    step, above, position = told.failure.__traceback__, 0, 0
    while step is not None:
        position += 1
        room = str(step.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        above = position if room == told.package else above
        step = step.tb_next
    debugger = pdb.Pdb()
    debugger.reset()
    if above and position > above:
        debugger.cmdqueue.append(f"up {position - above}")
    debugger.interaction(None, told.failure.__traceback__)


# --------------------------------------------------------------------------------------- printing


_ENDS = {
    "succeeded": "it would succeed",
    "retried": "it would be retried",
    "deferred": "it would be deferred, without spending an attempt",
    "failed": "it would become a dead letter",
}
# Fields that every log line of a row has.
_OF_ROW = ("event_id", "command_id", "correlation_id")
_WRITES = (TableColumn("table"), *columns.numbers("inserted", "updated", "deleted"))
_SENT = (
    TableColumn("sends", "kind"),
    "type",
    TableColumn("to", "lane", cut="left"),
    "status",
    TableColumn("due", "run_at", kind="time"),
    TableColumn("id", "uuid", extra=True),
)
_BATCHES = (
    TableColumn("makes", lambda each: each["kind"] or "(adds to)"),
    TableColumn("name"),
    *columns.numbers("size"),
    TableColumn("open"),
    TableColumn("id", "uuid", extra=True),
)
_EVENTS = (TableColumn("event", "id", kind="number"), "outcome", "error")
_PROGRESS = (*columns.numbers("done", "of"), TableColumn("note", cut="right"))


def _parts(told: "Rehearsal", found: "RehearsedRow", *, payload: bool) -> Iterator[Part]:
    handlers = ", ".join(told.handlers)
    chunk = told.chunk and f"{plural(told.chunk['events'], 'event')} of key {told.chunk['key']!r}"
    yield Fields(
        {
            told.kind: f"{told.id} {show(found.row['type'])}",
            "handlers": handlers,
            "attempt": told.attempt,
            "chunk": chunk or None,
            "outcome": _ENDS[told.outcome],
            "next run": told.run_at,
            "took": span(told.seconds),
            "error": told.error,
            "path": told.path,
        }
    )
    if told.traceback:
        yield told.traceback
    if told.writes:
        undone = " before it failed; they would be rolled back" if told.undone else ""
        rows = [each._asdict() for each in told.writes]
        yield columns.table(_WRITES, rows, f"Written rows{undone}")
    else:
        yield "It wrote no rows."
    document = _as_json(told, found, payload=payload)
    tables = (
        ("sent", _SENT, ""),
        ("batches", _BATCHES, ""),
        ("events", _EVENTS, "Events of the chunk that would not succeed"),
        ("progress", _PROGRESS, "Progress"),
    )
    for key, shown, title in tables:
        if document[key]:
            yield columns.table(shown, document[key], title)
    for each in document["sent"] if payload else ():
        yield Document(f"payload of {each['uuid']}", each["payload"])
    if told.log:
        yield "\n".join(["Logged", *(f"  {line}" for line in map(_log_line, document["log"]))])
    if told.result is not None:
        yield Document("result", document["result"])


def _log_line(line: dict[str, Any]) -> str:
    own = ((key, value) for key, value in line["fields"].items() if key not in _OF_ROW)
    fields = " ".join(f"{key}={show(value)}" for key, value in own)
    return f"{line['level']}  {line['logger']}  {show(line['message'])}  {fields}".rstrip()


def _as_json(told: "Rehearsal", found: "RehearsedRow", *, payload: bool) -> dict[str, Any]:
    import orjson

    sent = []
    for each in told.sent:
        row = asdict(each)
        row["payload"] = orjson.loads(each.payload)
        if not payload:
            del row["payload"]
        sent.append(row)
    return {
        "kind": told.kind,
        "id": told.id,
        "uuid": found.uuid,
        "type": found.row["type"],
        "lane": found.lane,
        "status": found.status,
        "attempt": told.attempt,
        "handlers": told.handlers,
        "role": told.role,
        "chunk": told.chunk,
        "outcome": told.outcome,
        "run_at": told.run_at,
        "error": told.error,
        "path": told.path,
        "traceback": told.traceback,
        "result": None if told.result is None else orjson.loads(told.result),
        "duration": told.seconds,
        "writes": [each._asdict() for each in told.writes],
        "undone": told.undone,
        "sent": sent,
        "batches": [asdict(each) for each in told.batches],
        "events": [asdict(each) for each in told.events],
        "progress": [each._asdict() for each in told.progress],
        "log": [asdict(each) for each in told.log],
        "remarks": told.remarks,
    }
