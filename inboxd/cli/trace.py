"""`inboxd trace`: the story of a row: a tree for people, JSON for programs, a diagram, Markdown.

Promises: each row is one line; what is left out is counted.
Known limit: a large story is cut (`--limit`, `--each`); a trace of what was cut shows the rest.
"""

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
        help="A uuid or a row number, after event, command or batch if several have the number.",
        show_default=False,
    ),
]


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
    as_markdown: Annotated[
        bool,
        typer.Option("--markdown", help="Print Markdown: where the time went, and the diagram."),
    ] = False,
    *,
    given: Asking,
) -> None:
    """Show where a row came from, and everything that came from it."""
    kind, id = _read(about)
    if given.json + mermaid + as_markdown > 1:
        raise UsageError("Give one of --json, --mermaid and --markdown, not both.")
    from inboxd import operations

    found = given.ask(
        lambda session: operations.trace(session, id, kind=kind, rows=limit, each=each)
    )
    if given.json:
        print_json(found.document())
        return
    if found.earlier:
        typer.echo(f"It goes on above {found.top.member.name}: trace that one.", err=True)
    if as_markdown:
        lines = markdown(found.asked, found.waterfall(), earlier=found.earlier)
    else:
        lines = diagram(found.top) if mermaid else tree(found.top, found.asked)
    for line in lines:
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
