"""Options that many commands share, and the database session that a command opens with them.

`-c` means the same before and after the command's name, and the one after it wins.
"""

import getpass
import socket
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from inboxd.cli.groups import Options
from inboxd.cli.output import Part, print_json, print_parts, remark
from inboxd.model.lifecycle import Status

if TYPE_CHECKING:
    from inboxd.settings import Settings
    from inboxd.store.session import Session

T = TypeVar("T")


def _or_before_command(context: typer.Context, given: Path | None) -> Path | None:
    return given or context.find_root().params.get("config")


Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        callback=_or_before_command,
        metavar="FILE",
        help="The TOML file of settings; INBOXD_CONFIG names it too. Default: no file.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of a table.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="Row number or uuid.", show_default=False)]
Force = Annotated[bool, typer.Option("--force", help="Accept a name that is not declared.")]
Tenant = Annotated[str | None, typer.Option("--tenant", metavar="TEXT", help="Only this tenant.")]
Since = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Only rows created since: 2h, 7d, or a time in ISO 8601."),
]
Look = Annotated[
    int | None,
    typer.Option(
        "--look",
        metavar="N",
        min=1,
        help="Read at most N rows, then print the age of the last one. Default: about ten "
        "thousand, which is quick.",
    ),
]
Until = Annotated[
    str | None,
    typer.Option(
        "--until",
        metavar="TIME",
        help="Only rows settled before TIME; unsettled rows: created before TIME.",
    ),
]
By = Annotated[
    str | None,
    typer.Option(
        "--by",
        metavar="WHAT",
        help="The time that --since and --until select by: `created` (default); `ended`: "
        "settled or a dead letter; `failed`: a failed attempt; `done`: ended or failed; "
        "`waiting`: created and not ended.",
    ),
]
Entity = Annotated[
    str | None,
    typer.Option(
        "--entity",
        metavar="TYPE[:ID]",
        help="Only this entity, or all entities of this type.",
    ),
]
Statuses = Annotated[
    list[Status] | None,
    typer.Option(
        "--status",
        metavar="STATUS",
        help=f"Only this status ({', '.join(Status)}); repeatable.",
    ),
]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask; without a terminal the command never asks.")
]


@dataclass(frozen=True, kw_only=True)
class Asking(Options):
    config: Config = None
    json: Json = False

    @cached_property
    def settings(self) -> "Settings":
        return load_settings(self.config)

    def ask(self, question: "Callable[[Session], Awaitable[T]]", *, patient: bool = False) -> T:
        return ask(self.settings, self.config, question, patient=patient)

    def tell(self, document: Mapping[str, object], *lines: str) -> None:
        self.print(document, ["\n".join(lines)] if lines else [])

    def print(
        self, document: Mapping[str, object], parts: Iterable[Part], remarks: Iterable[str] = ()
    ) -> None:
        if self.json:
            print_json(document)
            return
        tables = self if isinstance(self, Looking) else Looking()
        print_parts(parts, wide=tables.wide, aligned=tables.aligned)
        for each in remarks:
            remark(each)
        if (next_ := document.get("next")) is not None:
            remark(f"There may be more: add --after {next_}")


@dataclass(frozen=True, kw_only=True)
class Looking(Asking):
    wide: Annotated[
        bool, typer.Option("--wide", help="Show all columns and whole values, at any width.")
    ] = False
    aligned: Annotated[
        bool, typer.Option("--aligned", help="Align columns even in a pipe or a file.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class Acting(Asking):
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The reason, for the audit.")
    ] = None

    def do(self, operation: "Callable[..., Awaitable[T]]", *on: object) -> T:
        who, why = actor(), self.reason
        return self.ask(lambda session: operation(session, *on, actor=who, reason=why))


@dataclass(frozen=True, kw_only=True)
class Previewed(Acting):
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")
    ] = False
    yes: Yes = False

    @property
    def asks(self) -> bool:
        return may_ask(yes=self.yes, json=self.json)

    def confirmed(self, show: Callable[[], bool], question: str) -> bool:
        """Show the preview and ask; returns whether to proceed. show: False if nothing is to do."""
        if not (self.dry_run or self.asks):
            return True
        return show() and not self.dry_run and typer.confirm(question, abort=True)


@dataclass(frozen=True, kw_only=True)
class Paging(Options):
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, max=10_000, help="List at most N rows.")
    ] = 20
    after: Annotated[
        int | None,
        typer.Option(
            metavar="ID", min=1, help="Continue after this row number, the last one listed."
        ),
    ] = None

    def next(self, rows: Sequence[Mapping[str, Any]]) -> int | None:
        """Return the page's last row number, for the next page; None: the list has ended."""
        return rows[-1]["id"] if len(rows) == self.limit else None


def may_ask(*, yes: bool, json: bool) -> bool:
    return sys.stdin.isatty() and not (yes or json)


def examples(*lines: str) -> str:
    """Make an epilog of examples; blank lines keep Typer from joining them."""
    return "\n\n".join(["Examples:", *(f"  {line}" for line in lines)])


def load_settings(config: Path | None) -> "Settings":
    """Load the settings, with the database of the folder's dev. Raises SettingsError."""
    from inboxd.cli.dev_place import surroundings
    from inboxd.settings import load

    return load(config, surroundings(config))


def named_in(settings: "Settings", kind: str) -> Collection[str]:
    if kind == "topic":
        return settings.topics
    if kind == "source":
        return (*settings.inbound.webhooks, *settings.inbound.messages)
    return settings.queues if kind == "queue" else ()


def ask(
    settings: "Settings",
    config: Path | None,
    question: "Callable[[Session], Awaitable[T]]",
    *,
    patient: bool = False,
) -> T:
    """patient: without time limits of statements. Raises DatabaseError or SchemaError."""
    import anyio

    from inboxd.cli.dev_place import require
    from inboxd.store.operator_sessions import open_session

    require(settings, config)

    async def run() -> T:
        async with open_session(settings.database, patient=patient) as session:
            return await question(session)

    return anyio.run(run)


def actor() -> str:
    """Return the actor for the audit: the operating system's user and host."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user id may have no name
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
