"""`inboxd emit`, `inboxd send`: write one row by hand, or the lines of a file (`files`)."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from inboxd.cli.completion import Completion, declared
from inboxd.cli.exits import Exit
from inboxd.cli.options import Asking, Force, named_in
from inboxd.cli.output import print_json, show
from inboxd.cli.payload import read_payload
from inboxd.errors import NoHandler, PayloadError, UsageError
from inboxd.features.producing.files import FileOptions, write_file
from inboxd.model.row_id import read_uuid

if TYPE_CHECKING:
    from inboxd.operations import Named
    from inboxd.registry.payload_models import Kind
    from inboxd.store.producing import Entry, WrittenEntry
    from inboxd.store.session import Session


T = TypeVar("T")

_TYPE = "Type, such as user.created; with --file, each line names it."
EventType = Annotated[
    str | None, typer.Argument(metavar="TYPE", help=_TYPE, autocompletion=declared("event type"))
]
CommandType = Annotated[
    str | None, typer.Argument(metavar="TYPE", help=_TYPE, autocompletion=declared("command type"))
]
Payload = Annotated[
    str | None, typer.Argument(metavar="JSON|-|@FILE", help="Payload; -: standard input.")
]


def _text(metavar: str, text: str, *names: str, completes: Completion | None = None) -> Any:
    return typer.Option(*names, metavar=metavar, help=text, autocompletion=completes)


@dataclass(frozen=True, kw_only=True)
class _New(Asking):
    tenant: Annotated[str | None, _text("TEXT", "Tenant of the row.")] = None
    entity_type: Annotated[str | None, _text("TEXT", "Type of the row's entity.")] = None
    entity_id: Annotated[str | None, _text("TEXT", "Id of the row's entity.")] = None
    correlation_id: Annotated[
        str | None, _text("TEXT", "Id of the story to continue. Default: a new story.")
    ] = None
    schema_version: Annotated[
        int, typer.Option(metavar="N", min=1, max=32767, help="Schema version.")
    ] = 1
    delay: Annotated[str | None, _text("DURATION", 'Time until it is due, such as "90s".')] = None
    force: Force = False
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Write nothing; report whether the handlers installed here accept the payload.",
        ),
    ] = False

    def refuse_beside_file(self, *arguments: str | None) -> None:
        given = [each.name for each in fields(self) if getattr(self, each.name) != each.default]
        if (
            any(argument is not None for argument in arguments)
            or set(given) - {*_NO_COLUMNS}
            or self.check
        ):
            raise UsageError(
                "with --file, each line has its own type, payload and columns: leave out TYPE, "
                "JSON and the options of a single row."
            )

    def entry(self, type_: str, payload: str) -> "Entry":
        from inboxd.model import duration
        from inboxd.store.producing import Entry

        given = {key: value for key, value in asdict(self).items() if key not in _NO_COLUMNS}
        read: dict[str, Callable[[str], object]] = {"uuid": read_uuid}
        read |= dict.fromkeys(("delay", "expires_in"), duration.parse)
        for name in read.keys() & given.keys():
            given[name] = None if given[name] is None else read[name](given[name])
        return Entry(type=type_, payload=read_payload(payload), **given)


_NO_COLUMNS = ("config", "json", "force", "check")


@dataclass(frozen=True, kw_only=True)
class EventOptions(_New):
    lane: Annotated[
        str | None,
        _text(
            "TEXT",
            "Topic of the event. Default: the topics of its type.",
            "--topic",
            completes=declared("topic"),
        ),
    ] = None
    source: Annotated[str | None, _text("TEXT", "The service that it comes from.")] = None
    uuid: Annotated[
        str | None,
        _text("UUID", "Id of the event; a repeated id writes no second event.", "--event-id"),
    ] = None
    ordering_key: Annotated[
        str | None, _text("TEXT", "Processed in order with events of the same key.")
    ] = None
    dedup_key: Annotated[str | None, _text("TEXT", "A repeated key writes no second event.")] = None


@dataclass(frozen=True, kw_only=True)
class CommandOptions(_New):
    lane: Annotated[
        str | None,
        _text(
            "TEXT",
            "Queue of the command. Default: the queue of its handler.",
            "--queue",
            completes=declared("queue"),
        ),
    ] = None
    priority: Annotated[
        int, typer.Option(metavar="N", min=-32768, max=32767, help="Smaller numbers run first.")
    ] = 0
    uuid: Annotated[
        str | None,
        _text("UUID", "Id of the command; a repeated id writes no second command.", "--command-id"),
    ] = None
    max_attempts: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=32767, help="Maximum number of attempts.")
    ] = None
    expires_in: Annotated[
        str | None,
        _text("DURATION", 'Time until it is cancelled, unless it has started, such as "1h".'),
    ] = None
    ordering_key: Annotated[
        str | None, _text("TEXT", "Commands of the same key run one after the other.")
    ] = None
    unique_key: Annotated[
        str | None, _text("TEXT", "At most one unsettled command of its type has this key.")
    ] = None
    on_conflict: Annotated[
        str,
        _text("keep|replace|reject", "The action if an unsettled command has the unique key."),
    ] = "keep"


def emit(
    type: EventType = None, *, payload: Payload = None, many: FileOptions, given: EventOptions
) -> None:
    """Emit one event of a declared type, or the events of a file.

    The exit code is 65 if an installed handler does not accept the payload, which is then not
    written, or if the dedup key belongs to an event with other content: then the event is a dead
    letter.
    """
    from inboxd.client.drafts import EVENTS
    from inboxd.store import producing

    if many.file is not None:
        given.refuse_beside_file(type, payload)
        write_file(given, many, EVENTS, force=given.force)
        return
    type, entry = _one(type, payload, given, many)
    if _is_checked_only("event", entry, given):
        return

    async def write(session: "Session") -> "tuple[WrittenEntry, list[dict[str, Any]]]":
        written = await producing.emit(session, entry)
        if not written.conflict:
            return written, []
        return written, [dict(row) for row in await producing.dead_copies(session, written.uuid)]

    written, dead = _produce(given, {"event type": type, "topic": given.lane}, write)
    _confirm("event", written, dead, json=given.json)
    if written.conflict:
        raise typer.Exit(Exit.DATA)


def send(
    type: CommandType = None, *, payload: Payload = None, many: FileOptions, given: CommandOptions
) -> None:
    """Send one command of a declared type, or the commands of a file.

    The exit code is 65 if the installed handler does not accept the payload, which is then not
    written.
    """
    from inboxd.client.drafts import COMMANDS
    from inboxd.store import producing

    if many.file is not None:
        given.refuse_beside_file(type, payload)
        write_file(given, many, COMMANDS, force=given.force)
        return
    type, entry = _one(type, payload, given, many)
    if _is_checked_only("command", entry, given):
        return
    names: dict[Named, str | None] = {"command type": type, "queue": given.lane}
    written = _produce(given, names, lambda session: producing.send(session, entry))
    _confirm("command", written, json=given.json)


def _one(
    type_: str | None, payload: str | None, given: _New, many: FileOptions
) -> "tuple[str, Entry]":
    many.refuse_without_file()
    if type_ is None:
        raise UsageError("give a TYPE, or --file for many rows.")
    return type_, given.entry(type_, "{}" if payload is None else payload)


def _is_checked_only(kind: "Kind", entry: "Entry", given: _New) -> bool:
    """Whether --check forbids writing. Raises PayloadError; NoHandler without a plugin for it."""
    from inboxd.registry.payload_models import models_here

    if given.force and not given.check:
        return False
    models, topic = models_here(given.settings), entry.lane if kind == "event" else None
    refusal = models.refusal(kind, entry.type, topic, entry.schema_version, entry.payload)
    if refusal is not None:
        refused = PayloadError(f"{refusal} Nothing was written")
        raise refused.on_terminals("" if given.check else "; --force writes it nevertheless")
    if not given.check:
        return False
    handlers = models.handlers(kind, entry.type, topic)
    if not handlers:
        raise NoHandler(
            f"no plugin that is installed here handles the {kind} {entry.type!r}: the payload was "
            "not checked, and nothing was written"
        )
    names = [each.name for each in handlers]
    given.tell({"taken_by": names}, f"Accepted by {', '.join(names)}; nothing was written.")
    return True


def _produce(
    given: _New, names: "Mapping[Named, str | None]", write: "Callable[[Session], Awaitable[T]]"
) -> "T":
    from inboxd import operations

    async def run(session: "Session") -> T:
        for kind, name in names.items():
            if name and not given.force:
                also = named_in(given.settings, kind)
                await operations.check_declared(session, kind, name, also=also)
        return await write(session)

    return given.ask(run)


def _confirm(
    what: str, written: "WrittenEntry", dead: Sequence[Mapping[str, Any]] = (), *, json: bool
) -> None:
    if json:
        found: dict[str, Any] = {"id": written.id, f"{what}_id": written.uuid}
        found["duplicate"] = written.duplicate
        if what == "event":
            found |= {"conflict": written.conflict, "dead_letters": dead}
        print_json(found)
    elif written.conflict:
        why = "its dedup key belongs to an event with different content"
        many = f"; in {len(dead)} topics, a dead letter in each" if len(dead) > 1 else ""
        again = ", and existed already" if written.duplicate else ""
        typer.echo(f"{what} {written.id} {written.uuid} is a dead letter{again}: {why}{many}")
        for each in dead:
            typer.echo(f"  {what} {each['id']} in topic {show(each['topic'])}")
    elif written.duplicate:
        number = "(settled)" if written.id is None else written.id
        typer.echo(f"{what} {number} {written.uuid} exists already; nothing was written")
    else:
        typer.echo(f"{what} {written.id} {written.uuid}")
