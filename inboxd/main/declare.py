"""`inboxd declare`: makes the declarations of a joining worker; `--dry-run` rolls them back.

Known limit: it removes nothing; workers remove names that no worker has declared for a week.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from inboxd.cli import columns
from inboxd.cli.dev_place import surroundings
from inboxd.cli.options import Looking, ask
from inboxd.cli.output import Part, TableColumn
from inboxd.model.wording import plural

if TYPE_CHECKING:
    from inboxd.daemon.declaring import DeclaredByName, WorkerDeclaration
    from inboxd.settings import Settings
    from inboxd.store.session import Session

# Between two checks whether the producers' transactions have ended.
_POLL_SECONDS = 0.1


class _Change(NamedTuple):
    kind: str
    name: str
    change: str


_CHANGES = (
    TableColumn("kind", lambda each: each.kind),
    TableColumn("name", lambda each: each.name, cut="left"),
    TableColumn("change", lambda each: each.change, cut="right"),
)
_WAITING = (
    TableColumn("type", lambda each: each[0], cut="left"),
    TableColumn("waiting events", lambda each: columns.count(each[1]), kind="number"),
    TableColumn("would go to", lambda each: each[2], cut="right"),
)


class _Result(NamedTuple):
    """A declaration or its preview. waiting: type, events, topics; left: topics not finished."""

    changes: Sequence[_Change]
    waiting: Sequence[tuple[str, int, Sequence[str]]] = ()
    taken: int = 0
    left: Sequence[str] = ()


def declare(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")
    ] = False,
    wait: Annotated[
        str,
        typer.Option(
            metavar="DURATION",
            help="Time to wait for open transactions of producers; workers finish the work later.",
        ),
    ] = "1m",
    *,
    given: Looking,
) -> None:
    """Declare topics, subscriptions, schedules and types as a worker does at start; run no worker.

    Events that wait for these topics move into them.
    """
    from inboxd.model import duration
    from inboxd.registry.plugins import accepted
    from inboxd.settings import read
    from inboxd.telemetry import logs

    reading = read(given.config, surroundings(given.config))
    settings, patience = accepted(reading), duration.parse(wait)
    logs.configure("warning", settings.log.format)
    declaration = _declaration(settings)

    async def run(session: "Session") -> _Result:
        from inboxd.store import migrations

        await migrations.check(session)
        if dry_run:
            return await _preview(session, declaration)
        return await _declare(session, declaration, patience)

    result = ask(settings, given.config, run, patient=True)
    given.print(_document(result, dry_run=dry_run), _parts(result, dry_run=dry_run))


def _declaration(settings: "Settings") -> "WorkerDeclaration":
    from inboxd.daemon.declaring import WorkerDeclaration
    from inboxd.registry.plugins import load_registry

    return WorkerDeclaration(settings, load_registry(settings))


async def _preview(session: "Session", declaration: "WorkerDeclaration") -> _Result:
    from inboxd.daemon.declaring import preview

    found = await preview(session, declaration)
    return _Result(_changes(found.before, found.after), found.waiting)


async def _declare(
    session: "Session", declaration: "WorkerDeclaration", wait: timedelta
) -> _Result:
    from contextlib import asynccontextmanager
    from functools import partial

    import anyio

    from inboxd.daemon.declaring import declare
    from inboxd.maintenance.intakes import Intakes
    from inboxd.store import workers

    before = await workers.declared(session)
    begin = partial(session.transaction, isolation="read_committed")
    await declare(session, begin, declaration)
    after = await workers.declared(session)

    @asynccontextmanager
    async def borrow() -> AsyncIterator["Session"]:
        yield session

    notify = declaration.settings.wakeups.mode != "off"
    taking = Intakes(borrow, notify=notify)
    await taking.take()
    until = anyio.current_time() + wait.total_seconds()
    while taking.open and anyio.current_time() < until:
        await anyio.sleep(_POLL_SECONDS)
        await taking.take()
    left = sorted({topic for each in taking.open for topic in each.topics})
    return _Result(_changes(before, after), taken=taking.taken, left=left)


def _changes(before: "DeclaredByName", after: "DeclaredByName") -> list[_Change]:
    return [
        _Change(*key, "new" if key not in before else _difference(before[key], after[key]))
        for key in sorted(after)
        if before.get(key) != after[key]
    ]


def _difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    if before.get("mode") != after.get("mode"):
        return f"mode {after['mode']}, was {before['mode']}"
    return f"changed: {', '.join(key for key in after if before.get(key) != after[key])}"


def _parts(result: _Result, *, dry_run: bool) -> Iterator[Part]:
    if result.changes:
        yield columns.table(_CHANGES, result.changes)
    else:
        yield "Nothing would change." if dry_run else "Nothing has changed."
    if result.waiting:
        yield columns.table(_WAITING, result.waiting)
    if result.taken:
        moved = "moved into its topics" if result.taken == 1 else "moved into their topics"
        yield f"{plural(result.taken, 'waiting event')} {moved}."
    if result.left:
        yield (
            f"Not finished: {', '.join(result.left)}. A transaction that wrote events before the"
            " declaration is still open; workers continue when it ends. `inboxd doctor` names it."
        )


def _document(result: _Result, *, dry_run: bool) -> dict[str, object]:
    from inboxd.store.listing import COUNTED

    changes = [each._asdict() for each in result.changes]
    if not dry_run:
        return {"changes": changes, "taken": result.taken, "not_finished": list(result.left)}
    waiting = [
        {"type": type_, "events": events, "topics": list(to)}
        for type_, events, to in result.waiting
    ]
    return {"changes": changes, "counted_to": COUNTED, "waiting": waiting}
