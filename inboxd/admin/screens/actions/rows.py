"""Actions on rows that are named: one on its page, or those that are chosen in a list.

Promises that all are done or none; that a row which has changed since the confirmation was shown is
left alone, and so are all others then; and that who may see certain tenants acts on their rows, and
learns nothing of others.
*See:* `operations/rows.py`, `operations/consequences.py`.
"""

from collections.abc import Iterator, Mapping, Sequence
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
        tell("It runs again now, its attempts counted anew. What went wrong stays listed."),
    ),
    "dismiss": (
        tell("It goes to history as dismissed, and runs no more. Then it can only be sent anew."),
    ),
    "cancel": (
        tell("What has not begun ends at once, and never runs."),
        tell("What runs is asked to end: its worker learns of it with its next heartbeat."),
    ),
}


def _ids(about: QueryParams) -> list[int | UUID]:
    """The rows that an address names. Raises UsageError."""
    ids = [read_row_id(each) for each in dict.fromkeys(about.getlist("id"))]
    if not ids:
        raise UsageError("no row is chosen: choose one row or more in the list")
    if len(ids) > MOST:
        raise UsageError(f"{len(ids)} rows are chosen: choose at most {MOST}")
    return ids


def _title(table: HotTable, ids: Sequence[object]) -> Sentence:
    """What it is about: texts of both tables, since languages decline them."""
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
    ids = _ids(visit.about)
    of_all = visit.visitor.tenants is None
    found = await operations.preview(
        visit.session,
        table,
        action,
        ids,
        expected=operations.ExpectedRows(visit.visitor.tenants),
        settings=visit.settings if of_all else None,
    )
    follows = found.follows
    return Question(
        title=_title(table, ids),
        button=_TITLES[action],
        does=_DOES[action],
        follows=list(_follows(action, table, follows)) if follows else [],
        doubts=list(_doubts(follows)) if follows and action == "replay" else [],
        rows=found.sample,
        seen=found.seen or "",
        command=_command(table, action, ids),
        final=action != "replay",
        parts={"table": table, "count": found.count},
    )


def _doubts(found: Consequences) -> Iterator[Sentence]:
    for id_, other in found.held[:_MOST_NAMED]:
        yield tell(
            "Command {id} cannot be replayed yet: command {other}, which has not ended, holds "
            "its unique key.",
            id=id_,
            other=other,
        )
    if (more := len(found.held) - _MOST_NAMED) > 0:
        yield tell("As little can {n} more of them.", n=more)


def _follows(action: Action, table: HotTable, found: Consequences) -> Iterator[Sentence]:
    names = listed([each.name or f"{each.kind} {each.id}" for each in found.batches])
    if names and action == "replay":
        yield tell(
            "Its batch heals if nothing else of it failed, and this succeeds: {names}.", names=names
        )
    elif names:
        yield tell("To its batch it counts as cancelled: {names}.", names=names)
    yield from _released(action, found.waiting)
    if found.in_place and action == "replay":
        yield tell("With an ordering key it runs again in its own place in the line.")
    n = f"{found.behind.count:,}"
    if found.behind.more:
        yield tell(
            "Rows that stand behind it in the line of its key, and go on after it: at least {n}.",
            n=n,
        )
    elif found.behind.count:
        yield tell(
            "Rows that stand behind it in the line of its key, and go on after it: {n}.", n=n
        )
    if action == "replay" and table == "commands" and not found.in_place:
        yield tell("A new row runs and takes its place; the old one goes to history.")


def _released(action: Action, waiting: OthersTouched) -> Iterator[Sentence]:
    """What becomes of rows that wait for it."""
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
        visit.session, table, action, _ids(visit.about), expected=visit.expected, **visit.by
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
            "Cancelled: {n}. Asked to end, since they run: {asked}.",
            n=len(done.ids),
            asked=len(done.requested),
        )
    return tell("Cancelled: {n}.", n=len(done.ids))


async def _ask_when(table: HotTable, visit: ActionVisit) -> Question:
    ids = _ids(visit.about)
    seen = await operations.movable(
        visit.session, table, "reschedule", ids, operations.ExpectedRows(visit.visitor.tenants)
    )
    return Question(
        title=_title(table, ids),
        button=_TITLES["reschedule"],
        does=[
            tell(
                "It runs at another time, at once if that has passed. What has begun is left alone."
            )
        ],
        follows=[
            tell("In the line of an ordering key the order stays: it runs after those before it.")
        ],
        fields=[
            AskedField(
                name="at",
                title=tell("When"),
                hint="now, 2h, 2026-01-31T08:00Z",
                value=visit.typed.get("at", ""),
                required=True,
            )
        ],
        seen=seen,
        command=_command(table, "reschedule", ids, " --at 2h"),
    )


async def _do_when(table: HotTable, visit: ActionVisit) -> ActionTold:
    when = read_until(visit.typed.get("at", ""))
    done = await operations.reschedule(
        visit.session, table, _ids(visit.about), when, expected=visit.expected, **visit.by
    )
    told = tell("Rescheduled to {time}: {n}.", time=f"{when:%Y-%m-%d %H:%M:%S %Z}", n=len(done))
    return ActionTold(_back(table, visit.about), told)


async def _ask_priority(visit: ActionVisit) -> Question:
    ids = _ids(visit.about)
    seen = await operations.movable(
        visit.session, "commands", "prioritize", ids, operations.ExpectedRows(visit.visitor.tenants)
    )
    return Question(
        title=_title("commands", ids),
        button=_TITLES["prioritize"],
        does=[
            tell("It gets another priority: of what is due in its queue, the smallest runs first.")
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
        visit.session, _ids(visit.about), priority, expected=visit.expected, **visit.by
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
