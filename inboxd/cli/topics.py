"""`inboxd topics`: how each topic is processed, which types it gets, and what waits in it.

Known limit: what is shown was declared by the worker that joined last.
"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from inboxd.cli import rows
from inboxd.cli.help import CommandGroup
from inboxd.cli.options import Config, Json, Reason, ask, examples, load_settings, named_in
from inboxd.cli.output import print_fields, print_json, print_table
from inboxd.cli.status import count, seconds

if TYPE_CHECKING:
    from inboxd.store.session import Session

app = CommandGroup(no_args_is_help=True, help="Look at topics, their modes and subscriptions.")

Name = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.", show_default=False)]

_OF_LISTS = ("key", "events", "since", "due_at", "attempts")
_COLUMNS = (
    "topic",
    "mode",
    "pending",
    "arrived",
    "filed",
    "blocked",
    "kept",
    "failed",
    "oldest",
    "types",
)


@app.command("list", epilog=examples("inboxd topics list", "inboxd topics list --json"))
def list_(config: Config = None, json: Json = False) -> None:
    """List topics: their modes, what waits, and lines that stand still."""
    from inboxd.store import listing, topics

    found = ask(load_settings(config), topics.listed)
    if json:
        print_json({"counted_to": listing.COUNTED, "topics": found})
        return
    print_table(_COLUMNS, [_shown(topic, listing.COUNTED) for topic in found])


@app.command(
    "show", epilog=examples("inboxd topics show rewards", "inboxd topics show rewards --json")
)
def show(name: Name, config: Config = None, json: Json = False) -> None:
    """Show one topic: what was declared, by whom, and what waits in it."""
    from inboxd.errors import UnknownName
    from inboxd.model.spelling import did_you_mean
    from inboxd.store import listing, topics

    found = ask(load_settings(config), topics.listed)
    topic = next((each for each in found if each["topic"] == name), None)
    if topic is None:
        hint = did_you_mean(name, [each["topic"] for each in found]) or "."
        raise UnknownName(
            f"there is no topic {name!r}: nobody declares it, and no event waits in it{hint}"
        )
    if json:
        print_json({"counted_to": listing.COUNTED, **topic})
        return
    print_fields(f"Topic {name}", _fields(topic, listing.COUNTED))


@app.command(
    "blocked", epilog=examples("inboxd topics blocked", "inboxd topics blocked --topic rewards")
)
def blocked(
    topic: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this topic.", show_default=False)
    ] = None,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, max=1000, help="How many ordering keys.")
    ] = 20,
    config: Config = None,
    json: Json = False,
) -> None:
    """List ordering keys of sequential topics that stand still: since when, behind which event."""
    from inboxd import operations
    from inboxd.errors import UnknownName
    from inboxd.store import lines

    settings = load_settings(config)

    async def look(session: "Session") -> list[dict[str, Any]]:
        found = await lines.blocked(session, topic, limit)
        if topic is not None and not found:
            also = named_in(settings, "topic")
            if told := await operations.unknown(session, "topic", topic, also=also):
                raise UnknownName(told)
        return found

    found = ask(settings, look)
    if json:
        print_json({"lines": found})
        return
    columns = ("topic", "key", "held by", "id", "type", "attempts", "length", "for", "next time")
    print_table((*columns, "error"), [_line(each) for each in found])


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
        str | None, typer.Argument(metavar="TYPE", help="Only this type.", show_default=False)
    ] = None,
    reason: Reason = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Give no more events to a topic that no living worker declares; by itself, after a week."""
    from inboxd import operations

    who = rows.actor()
    ended = ask(
        load_settings(config),
        lambda session: operations.unsubscribe(session, name, type, actor=who, reason=reason),
    )
    if json:
        print_json({"topic": name, "ended": ended})
        return
    typer.echo(f"Topic {name} gets no more events of: {', '.join(ended)}")


@app.command(
    "lists",
    epilog=examples("inboxd topics lists daily-report", "inboxd topics lists shipments --json"),
)
def lists(
    name: Name,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Most lists.")] = 20,
    config: Config = None,
    json: Json = False,
) -> None:
    """Show the lists of a batch topic that wait: key, events, since when, when due."""
    from inboxd.errors import NotFound, UnknownName
    from inboxd.model.spelling import did_you_mean
    from inboxd.store import lists as store
    from inboxd.store import topics

    async def look(session: "Session") -> tuple[dict[str, str], int, list[dict[str, Any]]]:
        modes = await topics.modes(session.connection, session.sql)
        return modes, *await store.waiting(session, name, limit)

    known, arrived, found = ask(load_settings(config), look)
    mode = known.get(name)
    if mode != "batch" and not found:  # lists of the time when it was batch are shown
        what = f"There is no batch topic {name!r}"
        if mode:
            raise NotFound(f"{what}: it is {mode}; see `inboxd topics list`.")
        hint = did_you_mean(name, known) or "; see `inboxd topics list`."
        raise UnknownName(f"{what}: nobody declares it{hint}")
    if json:
        print_json({"topic": name, "arrived": arrived, "lists": found})
        return
    print_table(_OF_LISTS, [[each[column] for column in _OF_LISTS] for each in found])
    if arrived:
        typer.echo(f"{arrived} events have arrived since and are in no list yet")


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
    reason: Reason = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Run the lists of a batch topic now, whatever they wait for."""
    from inboxd import operations

    who = rows.actor()
    keys = ask(
        load_settings(config),
        lambda session: operations.flush(session, name, key, actor=who, reason=reason),
    )
    if json:
        print_json({"topic": name, "flushed": len(keys), "keys": keys})
        return
    typer.echo(f"{len(keys)} lists of {name} are due now")


def _shown(topic: dict[str, Any], most: int) -> list[Any]:
    counts = (count(topic[name], most) for name in ("pending", "arrived", "filed"))
    return [
        *(topic["topic"], topic["mode"], *counts, _blocked(topic, most)),
        *(count(topic[name], most) for name in ("kept", "failed")),
        *(seconds(topic["oldest"]), ", ".join(topic["types"])),
    ]


def _line(each: dict[str, Any]) -> list[Any]:
    return [
        *(each["topic"], each["key"], each["held_by"], each["id"], each["type"]),
        *(each["attempts"], each["length"], seconds(each["age"]), each["next_at"], each["error"]),
    ]


def _fields(topic: dict[str, Any], most: int) -> dict[str, object]:
    fields: dict[str, object] = {
        "mode": topic["mode"],
        "declared by": topic["source"] or "nobody: it is processed as single",
        "undeclared since": topic["undeclared_at"],
        "types": ", ".join(topic["types"]),
        "types nobody declares": ", ".join(topic["undeclared"]),
        "ordering key": _pointer(topic["key_path"]),
        "dedup key": "event_id" if topic["dedup_path"] == [] else _pointer(topic["dedup_path"]),
        **{name.replace("_", " "): _told(value) for name, value in topic["rules"].items()},
    }
    fields |= {name: count(topic[name], most) for name in ("pending", "arrived", "filed")}
    fields["blocked lines"] = _blocked(topic, most)
    fields["kept, as nobody handles them"] = count(topic["kept"], most) if topic["kept"] else None
    fields["takes in what waited, for"] = seconds(topic["held_for"])
    fields["dead letters"] = count(topic["failed"], most)
    fields["oldest due"] = seconds(topic["oldest"])
    return {name: value for name, value in fields.items() if value not in (None, "")}


def _blocked(topic: dict[str, Any], most: int) -> str | None:
    if not topic["blocked"]:
        return None
    return f"{count(topic['blocked'], most)} ({seconds(topic['blocked_for'])})"


def _pointer(path: list[str] | None) -> str | None:
    if path is None:
        return None
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in path)


def _told(value: object) -> object:
    return ", ".join(map(str, value)) if isinstance(value, list) else value
