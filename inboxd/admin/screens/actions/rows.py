"""Actions on one row, from its page, or on rows chosen in a list.

Promises that all rows are changed or none; that no row is changed if one of them differs from what
was shown; and that visitors of certain tenants learn nothing about others' rows.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC
from functools import partial
from typing import Final
from uuid import UUID

from starlette.datastructures import QueryParams

from inboxd import operations
from inboxd.admin.screens.actions.contract import (
    ActionTold,
    ActionVisit,
    AskedField,
    Question,
    ScreenAction,
    Sentence,
    due_field,
    tell,
    way_back,
)
from inboxd.errors import UsageError
from inboxd.model.moments import read_until
from inboxd.model.row_id import read_row_id
from inboxd.operations import Action, Consequences, Done, Move, OthersTouched
from inboxd.operations.held_rows import listed
from inboxd.store.wakeups import HotTable

MOST: Final = 500
_MOST_NAMED: Final = 10
_TITLES: Final[Mapping[Action | Move, Sentence]] = {
    "replay": tell("Replay"),
    "dismiss": tell("Dismiss"),
    "cancel": tell("Cancel"),
    "reschedule": tell("Reschedule"),
    "prioritize": tell("Prioritize"),
}
_DOES: Final[Mapping[Action, Sequence[Sentence]]] = {
    "replay": (
        tell("It runs again now, and its attempts are counted from zero. Its errors stay listed."),
    ),
    "dismiss": (
        tell(
            "It moves to history as dismissed and does not run again. After that, it can only "
            "be sent as a new row."
        ),
    ),
    "cancel": (
        tell("A command that has not started ends at once and never runs."),
        tell("A running command is asked to stop: its worker reads that with its next heartbeat."),
    ),
}


def row_ids(about: QueryParams) -> list[int | UUID]:
    ids = [read_row_id(each) for each in dict.fromkeys(about.getlist("id"))]
    if not ids:
        raise UsageError("no row is chosen: choose at least one row in the list")
    if len(ids) > MOST:
        raise UsageError(f"{len(ids)} rows are chosen: choose at most {MOST}")
    return ids


def _title(table: HotTable, ids: Sequence[object]) -> Sentence:
    """Each table has its own texts, since grammar differs."""
    if len(ids) == 1:
        return (
            tell("Event {id}", id=ids[0]) if table == "events" else tell("Command {id}", id=ids[0])
        )
    return tell("{n} events", n=len(ids)) if table == "events" else tell("{n} commands", n=len(ids))


def _back(table: HotTable, about: QueryParams) -> str:
    ids = about.getlist("id")
    return way_back(about, f"/{table}/{ids[0]}" if len(ids) == 1 else f"/{table}")


def _command(table: HotTable, verb: str, ids: Sequence[object], more: str = "") -> str:
    return f"inboxd {table} {verb} {' '.join(map(str, ids))}{more}"


async def _ask(table: HotTable, action: Action, visit: ActionVisit) -> Question:
    ids = row_ids(visit.about)
    of_all = visit.visitor.tenants is None
    found = await operations.preview(
        visit.session,
        table,
        action,
        ids,
        expected=operations.ExpectedRows(visit.visitor.tenants),
        settings=visit.settings if of_all else None,
    )
    follows = list(follows_of(action, found.follows)) if found.follows else []
    if found.follows and action == "replay" and table == "commands" and not found.follows.in_place:
        follows.append(tell("A new row takes its place and runs; the old one moves to history."))
    return Question(
        title=_title(table, ids),
        button=_TITLES[action],
        does=_DOES[action],
        follows=follows,
        doubts=list(doubts_of(found.follows)) if found.follows and action == "replay" else [],
        rows=found.sample,
        seen=found.seen or "",
        command=_command(table, action, ids),
        final=action != "replay",
        parts={"table": table, "count": found.count},
    )


def doubts_of(found: Consequences) -> Iterator[Sentence]:
    for id_, other in found.held[:_MOST_NAMED]:
        yield tell(
            "Command {id} cannot be replayed yet: command {other}, which has not ended, holds "
            "its unique key.",
            id=id_,
            other=other,
        )
    if (more := len(found.held) - _MOST_NAMED) > 0:
        yield tell("{n} more cannot be replayed yet for the same reason.", n=more)


def follows_of(action: Action, found: Consequences) -> Iterator[Sentence]:
    names = listed([each.name or f"{each.kind} {each.id}" for each in found.batches])
    if names and action == "replay":
        yield tell(
            "Its batch heals if this succeeds and nothing else in it failed: {names}.", names=names
        )
    elif names:
        yield tell("Its batch counts it as cancelled: {names}.", names=names)
    yield from released(action, found.waiting)
    if found.in_place and action == "replay":
        yield tell("A row with an ordering key runs again in its own place in the line.")
    n = f"{found.behind.count:,}"
    if found.behind.more:
        yield tell(
            "Rows behind it in the line of its ordering key, which continue after it: at "
            "least {n}.",
            n=n,
        )
    elif found.behind.count:
        yield tell(
            "Rows behind it in the line of its ordering key, which continue after it: {n}.", n=n
        )


def released(action: Action, waiting: OthersTouched) -> Iterator[Sentence]:
    n = f"{waiting.count:,}"
    if action == "replay" and waiting.more:
        yield tell("Rows that wait for it, and are released when it succeeds: at least {n}.", n=n)
    elif action == "replay" and waiting.count:
        yield tell("Rows that wait for it, and are released when it succeeds: {n}.", n=n)
    elif waiting.more:
        yield tell(
            "Rows that wait for it: at least {n}. Those that need its success end as skipped, the "
            "others are released.",
            n=n,
        )
    elif waiting.count:
        yield tell(
            "Rows that wait for it: {n}. Those that need its success end as skipped, the others "
            "are released.",
            n=n,
        )


async def _do(table: HotTable, action: Action, visit: ActionVisit) -> ActionTold:
    done = await operations.act(
        visit.session, table, action, row_ids(visit.about), expected=visit.expected, **visit.by
    )
    path = _back(table, visit.about)
    if action == "replay" and len(done) == 1 and "to" not in visit.about:
        path = f"/{table}/{done.new_ids[0]}"
    return ActionTold(path, _told(action, done))


def _told(action: Action, done: Done) -> Sentence:
    if action == "replay":
        if len(done) == 1 and done.ids != done.new_ids:
            return tell("Replayed: {id} runs again as {new}.", id=done.ids[0], new=done.new_ids[0])
        return tell("Replayed: {n} run again.", n=len(done))
    if action == "dismiss":
        return tell("Dismissed: {n}.", n=len(done))
    if done.requested:
        return tell(
            "Cancelled: {n}. Running, and asked to stop: {asked}.",
            n=len(done.ids),
            asked=len(done.requested),
        )
    return tell("Cancelled: {n}.", n=len(done.ids))


async def _ask_when(table: HotTable, visit: ActionVisit) -> Question:
    ids = row_ids(visit.about)
    seen = await operations.movable(
        visit.session, table, "reschedule", ids, operations.ExpectedRows(visit.visitor.tenants)
    )
    return Question(
        title=_title(table, ids),
        button=_TITLES["reschedule"],
        does=[
            tell(
                "It runs at the given time, or at once if that has passed. Rows that have "
                "started are left as they are."
            )
        ],
        follows=[
            tell("The order of an ordering key stays: a row still runs after the rows before it.")
        ],
        fields=[due_field(visit.typed.get("at", ""), required=True)],
        seen=seen,
        command=_command(table, "reschedule", ids, " --at 2h"),
    )


async def _do_when(table: HotTable, visit: ActionVisit) -> ActionTold:
    when = read_until(visit.typed.get("at", ""), UTC)
    done = await operations.reschedule(
        visit.session, table, row_ids(visit.about), when, expected=visit.expected, **visit.by
    )
    told = tell("Rescheduled to {time}: {n}.", time=f"{when:%Y-%m-%d %H:%M:%S %Z}", n=len(done))
    return ActionTold(_back(table, visit.about), told)


async def _ask_priority(visit: ActionVisit) -> Question:
    ids = row_ids(visit.about)
    seen = await operations.movable(
        visit.session, "commands", "prioritize", ids, operations.ExpectedRows(visit.visitor.tenants)
    )
    return Question(
        title=_title("commands", ids),
        button=_TITLES["prioritize"],
        does=[
            tell(
                "Its priority changes: of the due commands in its queue, the one with the "
                "smallest priority runs first."
            )
        ],
        fields=[
            AskedField(
                name="priority",
                title=tell("Priority"),
                kind="number",
                hint="-32768 … 32767",
                value=visit.typed.get("priority", "0"),
                required=True,
            )
        ],
        seen=seen,
        command=_command("commands", "prioritize", ids, " --priority 0"),
    )


async def _do_priority(visit: ActionVisit) -> ActionTold:
    text = visit.typed.get("priority", "")
    try:
        priority = int(text)
    except ValueError:
        raise UsageError(f"{text[:20]!r} is not a valid priority: give a whole number") from None
    done = await operations.prioritize(
        visit.session, row_ids(visit.about), priority, expected=visit.expected, **visit.by
    )
    told = tell("Priority {priority}: {n}.", priority=priority, n=len(done))
    return ActionTold(_back("commands", visit.about), told)


def _of(table: HotTable, action: Action) -> ScreenAction:
    return ScreenAction(
        path=f"/act/{table}/{action}",
        ask=partial(_ask, table, action),
        do=partial(_do, table, action),
        back=partial(_back, table),
        for_tenants=True,
    )


def _when(table: HotTable) -> ScreenAction:
    return ScreenAction(
        path=f"/act/{table}/reschedule",
        ask=partial(_ask_when, table),
        do=partial(_do_when, table),
        back=partial(_back, table),
        for_tenants=True,
    )


ACTIONS: Final = (
    _of("events", "replay"),
    _of("events", "dismiss"),
    _of("commands", "replay"),
    _of("commands", "dismiss"),
    _of("commands", "cancel"),
    _when("events"),
    _when("commands"),
    ScreenAction(
        path="/act/commands/prioritize",
        ask=_ask_priority,
        do=_do_priority,
        back=partial(_back, "commands"),
        for_tenants=True,
    ),
)
