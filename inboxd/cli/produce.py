"""`inboxd emit`, `inboxd send`: one event or command by hand.

Known limit: one row a call, to try a handler or mend a case; services use their own connection
(docs/producers.md).
"""

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from inboxd.cli.exits import Exit
from inboxd.cli.options import Common, Force, named_in, read_uuid
from inboxd.cli.output import print_json
from inboxd.errors import UsageError

if TYPE_CHECKING:
    from inboxd.operations import Named
    from inboxd.store.producing import Receipt
    from inboxd.store.session import Session

    # What is to be declared, by kind.
    Names = Mapping[Named, str | None]

T = TypeVar("T")

Type = Annotated[str, typer.Argument(metavar="TYPE", help="Its type, such as user.created.")]
Payload = Annotated[
    str, typer.Argument(metavar="JSON|-|@FILE", help="Its payload; -: standard input.")
]
Tenant = Annotated[str | None, typer.Option(metavar="TEXT", help="Whose it is.")]
EntityType = Annotated[str | None, typer.Option(metavar="TEXT", help="Kind of its entity.")]
EntityId = Annotated[str | None, typer.Option(metavar="TEXT", help="Id of its entity.")]
Correlation = Annotated[
    str | None, typer.Option(metavar="TEXT", help="The story it belongs to; else a new one.")
]
Version = Annotated[int, typer.Option(metavar="N", min=1, max=32767, help="Schema version.")]
Delay = Annotated[
    str | None, typer.Option(metavar="DURATION", help='When it is due, counted from now: "90s".')
]


def emit(
    type: Type,
    *,
    payload: Payload = "{}",
    topic: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Its topic; else those of its type.")
    ] = None,
    tenant: Tenant = None,
    source: Annotated[str | None, typer.Option(metavar="TEXT", help="Who says it.")] = None,
    entity_type: EntityType = None,
    entity_id: EntityId = None,
    event_id: Annotated[
        str | None, typer.Option(metavar="UUID", help="Its id; the same one twice is one event.")
    ] = None,
    correlation_id: Correlation = None,
    schema_version: Version = 1,
    delay: Delay = None,
    ordering_key: Annotated[
        str | None, typer.Option(metavar="TEXT", help="In order with those of the same key.")
    ] = None,
    dedup_key: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The same one twice is one event.")
    ] = None,
    force: Force = False,
    given: Common,
) -> None:
    """Emit one event, of a type that somebody handles."""
    from inboxd.store import producing

    entry = producing.Entry(
        type=type,
        payload=_read_payload(payload),
        lane=topic,
        uuid=None if event_id is None else read_uuid(event_id),
        schema_version=schema_version,
        source=source,
        tenant=tenant,
        entity_type=entity_type,
        entity_id=entity_id,
        correlation_id=correlation_id,
        delay=_read_delay(delay),
        ordering_key=ordering_key,
        dedup_key=dedup_key,
    )

    async def write(session: "Session") -> "tuple[Receipt, list[dict[str, Any]]]":
        receipt = await producing.emit(session, entry)
        if not receipt.conflict:
            return receipt, []
        return receipt, [dict(row) for row in await producing.dead_copies(session, receipt.uuid)]

    names: Names = {} if force else {"event type": type, "topic": topic}
    receipt, dead = _produce(given, names, write)
    _confirm("event", receipt, dead, json=given.json)
    if receipt.conflict:
        raise typer.Exit(Exit.DEAD_LETTER)


def send(
    type: Type,
    *,
    payload: Payload = "{}",
    queue: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Its queue; else the one its handler names.")
    ] = None,
    priority: Annotated[
        int, typer.Option(metavar="N", min=-32768, max=32767, help="Smaller goes first.")
    ] = 0,
    tenant: Tenant = None,
    entity_type: EntityType = None,
    entity_id: EntityId = None,
    command_id: Annotated[
        str | None, typer.Option(metavar="UUID", help="Its id; the same one twice is one command.")
    ] = None,
    correlation_id: Correlation = None,
    schema_version: Version = 1,
    delay: Delay = None,
    max_attempts: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=32767, help="Executions in all.")
    ] = None,
    ordering_key: Annotated[
        str | None, typer.Option(metavar="TEXT", help="One after the other with the same key.")
    ] = None,
    unique_key: Annotated[
        str | None, typer.Option(metavar="TEXT", help="At most one unsettled of its type has it.")
    ] = None,
    on_conflict: Annotated[
        str, typer.Option(metavar="keep|replace|reject", help="What happens to the one there is.")
    ] = "keep",
    force: Force = False,
    given: Common,
) -> None:
    """Send one command, of a type that somebody handles."""
    from inboxd.store import producing

    entry = producing.Entry(
        type=type,
        payload=_read_payload(payload),
        lane=queue,
        uuid=None if command_id is None else read_uuid(command_id),
        schema_version=schema_version,
        tenant=tenant,
        entity_type=entity_type,
        entity_id=entity_id,
        correlation_id=correlation_id,
        delay=_read_delay(delay),
        priority=priority,
        max_attempts=max_attempts,
        ordering_key=ordering_key,
        unique_key=unique_key,
        on_conflict=on_conflict,
    )
    names: Names = {} if force else {"command type": type, "queue": queue}
    receipt = _produce(given, names, lambda session: producing.send(session, entry))
    _confirm("command", receipt, json=given.json)


def _produce(given: Common, names: "Names", write: "Callable[[Session], Awaitable[T]]") -> "T":
    """Write on a session of its own. Raises UnknownName for a name that nothing declares."""
    from inboxd import operations

    async def run(session: "Session") -> T:
        for kind, name in names.items():
            if name:
                also = named_in(given.settings, kind)
                await operations.check_declared(session, kind, name, also=also)
        return await write(session)

    return given.ask(run)


def _read_payload(given: str) -> str:
    """JSON text. Raises UsageError, which never quotes it."""
    import orjson

    if given == "-":
        text, place = sys.stdin.buffer.read(), "standard input"
    elif given.startswith("@"):
        text, place = _read_file(Path(given[1:])), given[1:]
    else:
        text, place = given.encode(errors="surrogateescape"), "the payload"
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise UsageError(f"{place} is not valid JSON: {error}") from None
    return text.decode()


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot read the payload ({error.strerror})") from error


def _read_delay(given: str | None) -> timedelta | None:
    from inboxd.model import duration

    return None if given is None else duration.parse(given)


def _confirm(
    what: str, receipt: "Receipt", dead: Sequence[Mapping[str, Any]] = (), *, json: bool
) -> None:
    if json:
        found: dict[str, Any] = {"id": receipt.id, f"{what}_id": receipt.uuid}
        found["duplicate"] = receipt.duplicate
        if what == "event":
            found |= {"conflict": receipt.conflict, "dead_letters": dead}
        print_json(found)
    elif receipt.conflict:
        why = "its dedup key belongs to an event that said something else"
        many = f"; in {len(dead)} topics, a dead letter in each" if len(dead) > 1 else ""
        again = ", and was there already" if receipt.duplicate else ""
        typer.echo(f"{what} {receipt.id} {receipt.uuid} is a dead letter{again}: {why}{many}")
        for each in dead:
            typer.echo(f"  {what} {each['id']} in topic {each['topic']}")
    elif receipt.duplicate:
        number = "(settled)" if receipt.id is None else receipt.id
        typer.echo(f"{what} {number} {receipt.uuid} was there already; nothing was written")
    else:
        typer.echo(f"{what} {receipt.id} {receipt.uuid}")
