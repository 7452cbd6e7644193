"""`inboxd topics`: topics as the worker that joined last declares them, and their blocked keys."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from inboxd.cli import columns, figures
from inboxd.cli.completion import declared
from inboxd.cli.groups import CommandGroup
from inboxd.cli.options import Acting, Asking, Looking, examples, named_in
from inboxd.cli.output import Fields, TableColumn
from inboxd.cli.output import show as show_value
from inboxd.model.wording import breaker_word, plural, span

if TYPE_CHECKING:
    from inboxd.store.session import Session

app = CommandGroup(no_args_is_help=True, help="Show topics, their modes and subscriptions.")

Name = Annotated[
    str,
    typer.Argument(
        metavar="TOPIC",
        help="The topic.",
        show_default=False,
        autocompletion=declared("topic"),
    ),
]


def _blocked(topic: dict[str, Any]) -> str | None:
    if not topic["blocked"]:
        return None
    return f"{columns.count(topic['blocked'])} ({span(topic['blocked_for'])})"


_LIST = (
    TableColumn("topic", cut="left"),
    "mode",
    columns.counted("pending"),
    columns.counted("arrived", "new", extra=True, legend="not yet in a line or chunk"),
    columns.counted("lined_up", "in line", legend=columns.IN_LINE),
    TableColumn("blocked", _blocked, legend="blocked keys, and the longest wait"),
    columns.counted("kept", extra=True, legend=columns.KEPT),
    columns.counted("failed"),
    TableColumn("oldest due", "oldest", kind="span"),
    TableColumn("types", cut="left", extra=True),
)
_BLOCKED = (
    TableColumn("topic", cut="left"),
    TableColumn("key", cut="right"),
    TableColumn("blocked by", "held_by"),
    *("id", "type", "attempts"),
    TableColumn("length", kind="number", legend="events in line, with the first one"),
    TableColumn("for", "age", kind="span"),
    TableColumn("next attempt", "next_at", kind="time"),
    "error",
)
_CHUNKS = (
    *(TableColumn("key", cut="right"), TableColumn("events", kind="number")),
    *(TableColumn("since", kind="time"), TableColumn("due", "due_at", kind="time")),
    TableColumn("attempts", kind="number"),
)


@app.command("list", epilog=examples("inboxd topics list", "inboxd topics list --json"))
def list_(given: Looking) -> None:
    """List topics: their modes, waiting events, and blocked keys."""
    from inboxd.operations.lanes import topic_list

    document = given.ask(topic_list)
    given.print(document, [columns.table(_LIST, document["topics"])])


@app.command(
    "show", epilog=examples("inboxd topics show rewards", "inboxd topics show rewards --json")
)
def show(name: Name, given: Asking) -> None:
    """Show one topic: its declaration, its waiting events, and its work in the last hour."""
    from inboxd.operations.lanes import one_topic
    from inboxd.store import chunks as store

    async def look(session: "Session") -> tuple[Any, Any, list[dict[str, Any]]]:
        topic, done = await one_topic(session, name)
        waits = topic["mode"] == "batch" and not given.json
        return topic, done, (await store.waiting(session, name, 1))[1] if waits else []

    topic, done, first = given.ask(look)
    needed, titles = topic["breakers"], topic["titles"]
    fields = _fields(topic)
    if first:
        fields["next chunk"] = _due(first[0])
    fields["types"] = ", ".join(f"{type_} ({titles[type_]})" for type_ in topic["types"])
    fields = {key: value for key, value in fields.items() if value != ""}
    if needed:
        fields["breakers"] = ", ".join(f"{each['name']} ({breaker_word(each)})" for each in needed)
    given.print(topic, [Fields(fields, f"Topic {name}"), *figures.hour_tables(done)])


@app.command(
    "blocked", epilog=examples("inboxd topics blocked", "inboxd topics blocked --topic rewards")
)
def blocked(
    *,
    topic: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Only this topic.",
            show_default=False,
            autocompletion=declared("topic"),
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, max=1000, help="List at most N ordering keys.")
    ] = 20,
    given: Looking,
) -> None:
    """List blocked ordering keys of sequential topics, with the time and the blocking event."""
    from inboxd import operations
    from inboxd.errors import UnknownName
    from inboxd.store import lines

    async def look(session: "Session") -> list[dict[str, Any]]:
        found = await lines.blocked(session, topic, limit)
        if topic is not None and not found:
            also = named_in(given.settings, "topic")
            if told := await operations.unknown(session, "topic", topic, also=also):
                raise UnknownName(told)
        return found

    found = given.ask(look)
    given.print({"lines": found}, [columns.table(_BLOCKED, found)])


@app.command(
    "unsubscribe",
    epilog=examples(
        "inboxd topics unsubscribe rewards",
        "inboxd topics unsubscribe rewards purchase.completed --reason 'moved to points'",
    ),
)
def unsubscribe(
    name: Name,
    type: Annotated[
        str | None,
        typer.Argument(
            metavar="TYPE",
            help="Only this type.",
            show_default=False,
            autocompletion=declared("event type"),
        ),
    ] = None,
    *,
    given: Acting,
) -> None:
    """Stop giving events to a topic that no living worker declares; workers do it after a week."""
    from inboxd import operations

    ended = given.do(operations.unsubscribe, name, type)
    told = f"Topic {name} gets no more events of: {', '.join(ended)}"
    given.tell({"topic": name, "ended": ended}, told)


@app.command(
    "chunks",
    epilog=examples("inboxd topics chunks daily-report", "inboxd topics chunks shipments --json"),
)
def chunks(
    name: Name,
    *,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, max=1000, help="List at most N chunks.")
    ] = 20,
    given: Looking,
) -> None:
    """List the waiting chunks of a batch topic: key, events, age, due time."""
    from inboxd.errors import NotFound, UnknownName
    from inboxd.model.spelling import did_you_mean
    from inboxd.store import chunks as store
    from inboxd.store import topics

    async def look(session: "Session") -> tuple[dict[str, str], int, list[dict[str, Any]]]:
        modes = await topics.modes(session)
        return modes, *await store.waiting(session, name, limit)

    known, arrived, found = given.ask(look)
    mode = known.get(name)
    if mode != "batch" and not found:  # chunks that remain from an earlier batch topic are shown
        what = f"There is no batch topic {name!r}"
        if mode:
            raise NotFound(f"{what}: it is {mode}; see `inboxd topics list`.")
        hint = did_you_mean(name, known) or "; see `inboxd topics list`."
        raise UnknownName(f"{what}: it is not declared{hint}")
    told = [f"{plural(arrived, 'new event')} not yet in a chunk"] if arrived else []
    document = {"topic": name, "arrived": arrived, "chunks": found}
    given.print(document, [columns.table(_CHUNKS, found)], told)


@app.command(
    "flush",
    epilog=examples(
        "inboxd topics flush daily-report", "inboxd topics flush shipments 42 --reason 'by phone'"
    ),
)
def flush(
    name: Name,
    key: Annotated[
        str | None, typer.Argument(metavar="KEY", help="Only this key.", show_default=False)
    ] = None,
    *,
    given: Acting,
) -> None:
    """Run the chunks of a batch topic now, even if they are not full or due yet."""
    from inboxd import operations

    keys = given.do(operations.flush, name, key)
    told = f"{plural(len(keys), 'chunk')} of {name} {'is' if len(keys) == 1 else 'are'} due now"
    given.tell({"topic": name, "flushed": len(keys), "keys": keys}, told)


def _fields(topic: dict[str, Any]) -> dict[str, object]:
    fields: dict[str, object] = {
        "mode": topic["mode"],
        "declared by": topic["source"] or "no worker, so it is processed as single",
        "undeclared since": topic["undeclared_at"],
        "types": ", ".join(topic["types"]),
        "undeclared types": ", ".join(topic["undeclared"]),
        "ordering key": _pointer(topic["key_path"]),
        "dedup key": "event_id" if topic["dedup_path"] == [] else _pointer(topic["dedup_path"]),
        **{name.replace("_", " "): _joined(value) for name, value in topic["rules"].items()},
    }
    counts = (each for each in _LIST[2:] if each.title not in ("types", "kept"))
    fields |= {each.title: each.of(topic) for each in counts}
    fields["kept"] = columns.count(topic["kept"]) if topic["kept"] else None
    held_for = topic["held_for"]
    fields["intake running for"] = None if held_for is None else span(held_for)
    return {name: value for name, value in fields.items() if value not in (None, "")}


def _due(chunk: dict[str, Any]) -> str:
    when = "when it is full" if chunk["due_at"] is None else f"due {show_value(chunk['due_at'])}"
    return f"{when}: {plural(chunk['events'], 'event')} of key {show_value(chunk['key'])}"


def _pointer(path: list[str] | None) -> str | None:
    if path is None:
        return None
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in path)


def _joined(value: object) -> object:
    return ", ".join(map(str, value)) if isinstance(value, list) else value
