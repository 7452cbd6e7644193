"""`inboxd trace`: the story of a row as a tree for people, for programs, and as a diagram.

Promises: each row is one line; what is left out is counted.
Known limit: a large story is cut (`--limit`, `--each`); a trace of what was cut shows the rest.
"""

from collections.abc import Iterator
from dataclasses import fields
from typing import Annotated, Any
from uuid import UUID

import typer

from inboxd.cli.options import Asking
from inboxd.cli.output import print_json, say, show
from inboxd.errors import UsageError
from inboxd.model.row_id import read_row_id
from inboxd.model.story import ENDS, Key, Member, StoryNode
from inboxd.model.wording import plural, span

_KINDS = ("event", "command", "batch", "receipt")
_ABOUT = Annotated[
    list[str],
    typer.Argument(
        metavar="[KIND] ID",
        help="A uuid or a row number, after event, command or batch if several have the number.",
        show_default=False,
    ),
]
_STYLES = {
    "succeeded": "fill:#d5e8d4,stroke:#4c8a4a",
    "failed": "fill:#f8cecc,stroke:#b85450",
    "running": "fill:#dae8fc,stroke:#6c8ebf",
    "waiting": "fill:#fff2cc,stroke:#d6b656",
}


def trace(
    about: _ABOUT,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, max=10_000, help="Most rows in the tree.")
    ] = 200,
    each: Annotated[
        int, typer.Option(metavar="N", min=1, max=1_000, help="Most children shown of one row.")
    ] = 10,
    mermaid: Annotated[
        bool, typer.Option("--mermaid", help="Print a Mermaid diagram instead of a tree.")
    ] = False,
    *,
    given: Asking,
) -> None:
    """Show where a row came from, and everything that came from it."""
    kind, id = _read(about)
    if given.json and mermaid:
        raise UsageError("Give --json or --mermaid, not both.")
    from inboxd import operations

    found = given.ask(
        lambda session: operations.trace(session, id, kind=kind, rows=limit, each=each)
    )
    if given.json:
        print_json({"asked": found.asked, "earlier": found.earlier, "rows": as_json(found.top)})
        return
    if found.earlier:
        typer.echo(f"It goes on above {found.top.member.name}: trace that one.", err=True)
    for line in diagram(found.top) if mermaid else tree(found.top, found.asked):
        say(line)


def _read(about: list[str]) -> tuple[str | None, int | UUID]:
    """The kind, if it is given, and the id. Raises UsageError."""
    match about:
        case [id]:
            return None, read_row_id(id)
        case [kind, id] if kind in _KINDS:
            return kind, read_row_id(id)
        case ["workflow", id]:  # as the tree calls it; it has a batch's number
            return "batch", read_row_id(id)
    raise UsageError(
        f"{' '.join(about)!r} is not a row: give a uuid, a number, or {', '.join(_KINDS)} "
        "and a number."
    )


# ------------------------------------------------------------------------------- drawing, purely


def tree(top: StoryNode, asked: Key | None = None) -> Iterator[str]:
    """The lines of a tree, as a terminal shows them."""
    yield _line(top, asked)
    yield from _below(top, asked, "")


def _below(node: StoryNode, asked: Key | None, indent: str) -> Iterator[str]:
    rest = _rest(node)
    for place, child in enumerate(node.children, 1):
        last = place == len(node.children) and not rest
        yield f"{indent}{'└─ ' if last else '├─ '}{_line(child, asked)}"
        yield from _below(child, asked, indent + ("   " if last else "│  "))
    if rest:
        yield f"{indent}└─ {rest}"


def _line(node: StoryNode, asked: Key | None) -> str:
    member = node.member
    parts = [
        member.name,
        member.type,
        _topic(member),
        member.status,
        *_figures(member),
        *node.notes,
    ]
    if member.error and member.status != "succeeded":
        parts.append(member.error.splitlines()[0])
    if member.key == asked:
        parts.append("◀")
    return show("  ".join(part for part in parts if part))


def _topic(member: Member) -> str:
    """Where an event is: in several topics it has several rows, each with a story of its own."""
    return f"in {member.lane}" if member.kind == "event" else ""


def _figures(member: Member) -> Iterator[str]:
    yield show(member.created_at)
    if member.seconds is not None:
        yield f"took {span(member.seconds)}"
    if member.attempts > 1 or (member.attempts and member.status == "failed"):
        yield plural(member.attempts, "attempt")
    if member.counts is not None:
        ended = ((member.counts[status], status) for status in ENDS)
        counted = ", ".join(f"{count:,} {status}" for count, status in ended if count)
        size = plural(member.counts["size"], "command")
        yield f"{size}{': ' if counted else ''}{counted}"
        if member.counts["open"]:
            yield "open"


def _rest(node: StoryNode) -> str:
    """What is not shown of what a row created."""
    if node.cut:
        return "…" if node.member.counts is None or node.member.counts["size"] else ""
    if not node.hidden:
        return ""
    counted = ", ".join(f"{count:,} {status}" for status, count in node.hidden.items())
    return f"… {counted} more{', or even more' if node.unsure else ''}"


def diagram(top: StoryNode) -> Iterator[str]:
    """The lines of a Mermaid flowchart."""
    yield "flowchart TD"
    names = {node.member.key: f"{node.member.kind}{node.member.id}" for node in top.walk()}
    for node in top.walk():
        name, member = names[node.member.key], node.member
        style = f":::{member.status}" if member.status in _STYLES else ""
        texts = (member.name, member.type, _topic(member), member.status, *node.notes)
        yield f'  {name}["{"<br/>".join(map(_escaped, filter(None, texts)))}"]{style}'
        for child in node.children:
            yield f"  {name} --> {names[child.member.key]}"
        if rest := _rest(node):
            yield f'  {name} -.-> {name}_more["{_escaped(rest)}"]'
    for status, style in _STYLES.items():
        yield f"  classDef {status} {style}"


def _escaped(text: str) -> str:
    """Text that neither ends a label nor becomes HTML."""
    for character in '&#"<>':
        text = text.replace(character, f"\0{ord(character)};")
    return show(text.replace("\0", "#"))


def as_json(top: StoryNode) -> list[dict[str, Any]]:
    """A tree as a flat list of rows, each after its parent."""
    rows = []
    for node in top.walk():
        row = {each.name: getattr(node.member, each.name) for each in fields(Member)}
        rows.append(
            {
                **row,
                "parent": None,
                "notes": node.notes,
                "hidden": dict(node.hidden),
                "unsure": node.unsure,
                "cut": node.cut,
            }
        )
    parents = {child.member.key: node.member.key for node in top.walk() for child in node.children}
    for row in rows:
        row["duration"] = row.pop("seconds")
        row["parent"] = parents.get((row["kind"], row["id"]))
    return rows
