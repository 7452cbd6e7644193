"""Orders actions on all rows that match a filter; workers carry them out.

Promises that an order covers the rows that the page has counted: the form fixed relative times, and
unsupported filters are refused; that visitors of certain tenants act only on their rows; that more
than `TYPED_FROM` rows are confirmed by typing their number.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Final

from starlette.datastructures import QueryParams

from inboxd import operations
from inboxd.admin.screens.actions.contract import (
    NO_FORM,
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
from inboxd.admin.screens.formatting import in_utc, shell
from inboxd.admin.screens.pages.queries import given, texts
from inboxd.admin.screens.roles import Role
from inboxd.errors import UsageError
from inboxd.model.duration import parse
from inboxd.model.moments import read_until
from inboxd.operations import (
    ActionPreview,
    Consequences,
    OrderTerms,
    OthersTouched,
    Selection,
    Verb,
)
from inboxd.operations.bulk_orders import CANARY, ShownRows, statuses_of
from inboxd.operations.held_rows import listed
from inboxd.store.wakeups import HotTable

TYPED_FROM: Final = 1_000
# The mark of a form: the number of rows that it showed, and the largest id.
_SEEN: Final = re.compile(r"(?P<count>\d{1,9})(?P<more>\+?)/(?P<last>\d{1,18})", re.ASCII)
_TITLES: Final[Mapping[Verb, Sentence]] = {
    "replay": tell("Replay all that match"),
    "dismiss": tell("Dismiss all that match"),
    "cancel": tell("Cancel all that match"),
    "reschedule": tell("Reschedule all that match"),
    "prioritize": tell("Prioritize all that match"),
}
_FILTERS: Final = ("type", "tenant", "since", "until", "by", "entity", "error", "group", "batch")
# Filters of lists that bulk actions do not support: docs/screens.md says why.
_OTHERS: Final = ("payload", "commands")
_TIMES: Final[Mapping[str, Sentence]] = {"since": tell("Since"), "until": tell("Until")}


def _selection(table: HotTable, verb: Verb, visit: ActionVisit) -> Selection:
    about, lane = visit.about, _lane(table)
    named = texts(about, *_FILTERS, lane)
    if others := [name for name in _OTHERS if about.get(name)]:
        raise UsageError(
            f"a bulk action cannot filter by {', '.join(others)}: leave these filters out"
        )
    chosen = given(about, "status")
    if chosen and set(chosen) != set(statuses_of(verb)):
        raise UsageError(
            f"{verb} applies to rows that are {' or '.join(statuses_of(verb))}: leave the status "
            "out"
        )
    fixed = {name: visit.typed[name] for name in _TIMES if visit.typed.get(name)}
    return operations.read_selection(
        {**named, "lane": named[lane], **fixed}, tenants=visit.visitor.tenants, zone=UTC
    )


def _lane(table: HotTable) -> str:
    return "topic" if table == "events" else "queue"


def _back(table: HotTable, about: QueryParams) -> str:
    return way_back(about, f"/{table}")


def _command(table: HotTable, verb: Verb, about: QueryParams) -> str:
    named = [
        f"--{name} {shell(in_utc(value) if name in _TIMES else value)}"
        for name in (*_FILTERS, _lane(table))
        if (value := about.get(name))
    ]
    to = {"reschedule": ["--at 2h"], "prioritize": ["--priority 0"]}.get(verb, [])
    return " ".join([f"inboxd {table} {verb}", *(named or ["--all"]), *to, "--background"])


async def _ask(table: HotTable, verb: Verb, visit: ActionVisit) -> Question:
    wanted = _selection(table, verb, visit)
    return await ask_for_all(table, verb, visit, wanted, _command(table, verb, visit.about))


async def ask_for_all(
    table: HotTable, verb: Verb, visit: ActionVisit, wanted: Selection, command: str
) -> Question:
    of_all = visit.visitor.tenants is None
    found = await operations.preview_all(
        visit.session, table, verb, wanted, settings=visit.settings if of_all else None
    )
    n = f"{found.count:,}" + ("" if found.whole else "+")
    title = tell("{n} events", n=n) if table == "events" else tell("{n} commands", n=n)
    doubts = []
    if not str(wanted):
        doubts.append(
            tell("No filter is set: the action applies to all rows whose status allows it.")
        )
    if found.whole and not found.count:
        doubts.append(tell("No row matches now: there is nothing to do."))
    return Question(
        title=title,
        button=_TITLES[verb],
        does=[
            tell("Workers apply it to the rows that match now, not to rows that come later."),
            tell("Until it starts it can be undone; later it can be paused or ended on its page."),
            tell(
                "A row whose status no longer allows it at its turn is left as it is, and counted."
            ),
            *_left_out(table, verb),
        ],
        follows=list(_follows(verb, found.follows)) if found.follows else [],
        doubts=doubts,
        fields=list(_fields(verb, visit, wanted, found)),
        rows=found.sample,
        seen=f"{found.count}{'' if found.whole else '+'}/{found.last}",
        command=command,
        final=verb in ("dismiss", "cancel"),
        parts={
            "table": table,
            "count": found.count,
            "looked": found.looked,
            "spread": found.spread,
            "selection": wanted.given,
        },
    )


def _left_out(table: HotTable, verb: Verb) -> Iterator[Sentence]:
    if table == "commands" and verb == "replay":
        yield tell(
            "So is a row whose batch was cancelled, or whose unique key another command holds."
        )


def _follows(verb: Verb, found: Consequences) -> Iterator[Sentence]:
    names = listed([each.name or f"{each.kind} {each.id}" for each in found.batches])
    if names and verb == "replay":
        yield tell(
            "Batches that heal if these rows succeed and nothing else in them failed: {names}.",
            names=names,
        )
    elif names:
        yield tell("Batches that count these rows as cancelled: {names}.", names=names)
    if found.waiting.count and verb == "replay":
        yield tell(
            "Rows that wait for these rows, and are released when they succeed: {n}.",
            n=told_number(found.waiting),
        )
    elif found.waiting.count:
        yield tell(
            "Rows that wait for these rows: {n}. Those that need their success end as skipped, "
            "the others are released.",
            n=told_number(found.waiting),
        )
    if found.held and verb == "replay":
        yield tell(
            "Rows whose unique key another command holds now: {n}. They are left as they are if "
            "it still does at their turn.",
            n=len(found.held),
        )
    if found.in_place and verb == "replay":
        yield tell("A row with an ordering key runs again in its own place in the line.")
    if found.behind.count:
        yield tell(
            "Rows behind them in the lines of their ordering keys, which continue after them: {n}.",
            n=told_number(found.behind),
        )


def told_number(found: OthersTouched) -> Sentence | str:
    n = f"{found.count:,}"
    return tell("at least {n}", n=n) if found.more else n


def _fields(
    verb: Verb, visit: ActionVisit, wanted: Selection, found: ActionPreview
) -> Iterator[AskedField]:
    typed = visit.typed
    for name, at in (("since", wanted.since), ("until", wanted.until)):
        if at is not None:
            yield AskedField(name=name, title=_TIMES[name], kind="hidden", value=at.isoformat())
    if verb == "reschedule":
        yield due_field(typed.get("at", ""), required=True)
    if verb == "prioritize":
        yield AskedField(
            name="priority",
            title=tell("Priority"),
            kind="number",
            hint="-32768 … 32767",
            value=typed.get("priority", "0"),
            required=True,
        )
    if verb == "replay":
        yield AskedField(
            name="canary",
            title=tell("{n} rows first, the others only if all of those succeed", n=CANARY),
            kind="check",
            value=typed.get("canary", "") if typed else "1",
        )
    yield AskedField(
        name="rate",
        title=tell("Rows per second, at most; empty: no limit"),
        kind="number",
        value=typed.get("rate", "") if typed else "100",
    )
    yield AskedField(
        name="delay", title=tell("Starts in"), hint="5s, 10m", value=typed.get("delay", "5s")
    )
    yield from typed_number(typed, found.count, whole=found.whole)


def typed_number(typed: Mapping[str, str], count: int, *, whole: bool) -> Iterator[AskedField]:
    if word := _confirming(count, whole=whole):
        yield AskedField(
            name="rows",
            title=tell("Type the number of rows: {n}", n=word)
            if whole
            else tell("Not all rows could be counted. To confirm, type: {word}", word=word),
            value=typed.get("rows", ""),
            required=True,
        )


def check_number(typed: Mapping[str, str], count: int, *, whole: bool) -> None:
    """Raise UsageError, unless few rows are changed, or the shown number of rows is typed."""
    word = _confirming(count, whole=whole)
    if word and typed.get("rows", "").strip().replace(",", "") != word:
        raise UsageError(
            f"this changes {word} rows: type that number to confirm it"
            if word.isdecimal()
            else f"this changes more rows than could be counted: type {word!r} to confirm it"
        )


async def _do(table: HotTable, verb: Verb, visit: ActionVisit) -> ActionTold:
    return await order_all(table, verb, visit, _selection(table, verb, visit))


async def order_all(
    table: HotTable, verb: Verb, visit: ActionVisit, wanted: Selection
) -> ActionTold:
    seen = _SEEN.fullmatch(visit.seen or "")
    if seen is None:
        raise UsageError(NO_FORM)
    shown = ShownRows(int(seen["count"]), int(seen["last"]), visit.once)
    check_number(visit.typed, shown.count, whole=not seen["more"])
    terms = _terms(verb, visit.typed)
    ordered = await operations.order(
        visit.session, table, verb, wanted, terms, shown=shown, **visit.by
    )
    told = tell(
        "Ordered: action {id} starts at {time}. Until then it can be undone here.",
        id=ordered["id"],
        time=f"{ordered['starts_at']:%H:%M:%S} UTC",
    )
    return ActionTold(f"/actions/{ordered['id']}", told)


def _confirming(count: int, *, whole: bool) -> str | None:
    if not whole:
        return "all"
    return str(count) if count > TYPED_FROM else None


def _terms(verb: Verb, typed: Mapping[str, str]) -> OrderTerms:
    to: datetime | int | None = None
    if verb == "reschedule":
        to = read_until(typed.get("at", ""), UTC)
    elif verb == "prioritize":
        to = int(_number("priority", typed.get("priority", "")))
    rate = typed.get("rate", "").strip()
    return OrderTerms(
        to=to,
        delay=parse(typed.get("delay") or "0s"),
        rate=_number("rate", rate) if rate else None,
        canary=verb == "replay" and "canary" in typed,
    )


def _number(name: str, text: str) -> float:
    try:
        return float(text) if name == "rate" else int(text)
    except ValueError:
        raise UsageError(f"{text[:20]!r} is not a valid {name}: give a number") from None


def _order(table: HotTable, verb: Verb) -> ScreenAction:
    return ScreenAction(
        path=f"/act/{table}/{verb}-all",
        ask=partial(_ask, table, verb),
        do=partial(_do, table, verb),
        back=partial(_back, table),
        role=Role.ADMIN,
        for_tenants=True,
    )


ACTIONS: Final = (
    _order("events", "replay"),
    _order("events", "dismiss"),
    _order("events", "reschedule"),
    _order("commands", "replay"),
    _order("commands", "dismiss"),
    _order("commands", "cancel"),
    _order("commands", "reschedule"),
    _order("commands", "prioritize"),
)
