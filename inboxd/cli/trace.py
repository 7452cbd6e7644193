"""`inboxd trace`: the story of a row as a tree, as JSON, as a diagram, or as Markdown."""

from collections.abc import Iterator
from typing import Annotated
from uuid import UUID

import typer

from inboxd.cli.options import Asking
from inboxd.cli.output import print_json, say, show
from inboxd.errors import UsageError
from inboxd.model.row_id import read_row_id
from inboxd.model.story import ENDS, Key, Member, StoryNode
from inboxd.model.story_drawing import diagram, rest_of, topic_of
from inboxd.model.story_markdown import markdown
from inboxd.model.wording import plural, span

_KINDS = ("event", "command", "batch", "receipt")
_ABOUT = Annotated[
    list[str],
    typer.Argument(
        metavar="[KIND] ID",
        help="A uuid or a row number; KIND (event, command or batch) if several have the number.",
        show_default=False,
    ),
]


def trace(
    about: _ABOUT,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, max=10_000, help="Show at most N rows.")
    ] = 200,
    each: Annotated[
        int, typer.Option(metavar="N", min=1, max=1_000, help="Show at most N children of a row.")
    ] = 10,
    mermaid: Annotated[
        bool, typer.Option("--mermaid", help="Print a Mermaid diagram instead of a tree.")
    ] = False,
    as_markdown: Annotated[
        bool,
        typer.Option("--markdown", help="Print Markdown: the times of the rows, and the diagram."),
    ] = False,
    *,
    given: Asking,
) -> None:
    """Show the story of a row: its ancestors and all their descendants."""
    kind, id = _read(about)
    if given.json + mermaid + as_markdown > 1:
        raise UsageError("give only one of --json, --mermaid and --markdown.")
    from inboxd import operations

    found = given.ask(
        lambda session: operations.trace(session, id, kind=kind, rows=limit, each=each)
    )
    if given.json:
        print_json(found.document())
        return
    if found.earlier:
        typer.echo(f"{found.top.member.name} has ancestors: trace it to see them.", err=True)
    if as_markdown:
        lines = markdown(found.asked, found.waterfall(), earlier=found.earlier)
    else:
        lines = diagram(found.top) if mermaid else tree(found.top, found.asked)
    for line in lines:
        say(line)


def _read(about: list[str]) -> tuple[str | None, int | UUID]:
    match about:
        case [id]:
            return None, read_row_id(id)
        case [kind, id] if kind in _KINDS:
            return kind, read_row_id(id)
        case ["workflow", id]:  # the tree prints this kind; the number is the batch's
            return "batch", read_row_id(id)
    raise UsageError(
        f"{' '.join(about)!r} does not name a row: give a uuid, a number, or a kind "
        f"({', '.join(_KINDS)}) and a number."
    )


# --------------------------------------------------------------------------------------- drawing


def tree(top: StoryNode, asked: Key | None = None) -> Iterator[str]:
    yield _line(top, asked)
    yield from _below(top, asked, "")


def _below(node: StoryNode, asked: Key | None, indent: str) -> Iterator[str]:
    rest = rest_of(node)
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
        topic_of(member),
        member.status,
        *_figures(member),
        *node.notes,
    ]
    if member.error and member.status != "succeeded":
        parts.append(member.error.splitlines()[0])
    if member.key == asked:
        parts.append("◀")
    return show("  ".join(part for part in parts if part))


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
