"""Options that many commands share, how their texts are read, and the session they lead to.

Promises: `-c` means the same before and after the command's name, and the nearer one wins; a text
that cannot be read is refused before anything is asked of the database.
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
    """The file given after the command's name, or else before it or by the environment."""
    return given or context.find_root().params.get("config")


Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        callback=_or_before_command,
        metavar="FILE",
        help="The TOML file of settings; INBOXD_CONFIG names it too. Without one: environment "
        "and defaults.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of a table.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="Row number or uuid.", show_default=False)]
Force = Annotated[bool, typer.Option("--force", help="Insist on a name that nothing declares.")]
Tenant = Annotated[str | None, typer.Option("--tenant", metavar="TEXT", help="Only this tenant.")]
Since = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="Only what was created since: 2h, 7d, or a time in ISO 8601."
    ),
]
Statuses = Annotated[
    list[Status] | None,
    typer.Option(
        "--status",
        metavar="STATUS",
        help=f"Only this status ({', '.join(Status)}); may be given several times.",
    ),
]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask; without a terminal nobody is asked.")
]


@dataclass(frozen=True, kw_only=True)
class Asking(Options):
    """What every command has that asks the database."""

    config: Config = None
    json: Json = False

    @cached_property
    def settings(self) -> "Settings":
        """The settings in force. Raises SettingsError."""
        return load_settings(self.config)

    def ask(self, question: "Callable[[Session], Awaitable[T]]", *, patient: bool = False) -> T:
        """As the function `ask`, with these settings."""
        return ask(self.settings, question, patient=patient)

    def tell(self, document: Mapping[str, object], *lines: str) -> None:
        """Print the document as JSON, or the lines."""
        self.print(document, ["\n".join(lines)] if lines else [])

    def print(
        self, document: Mapping[str, object], parts: Iterable[Part], remarks: Iterable[str] = ()
    ) -> None:
        """Print the document as JSON; or its parts, with remarks and how it goes on."""
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
    """What every command has that prints tables."""

    wide: Annotated[
        bool, typer.Option("--wide", help="Show all columns and whole values, however wide.")
    ] = False
    aligned: Annotated[
        bool, typer.Option("--aligned", help="Align columns for people in a pipe as well.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class Acting(Asking):
    """What every command has that is in the audit."""

    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Why; it is kept in the audit.")
    ] = None

    def do(self, operation: "Callable[..., Awaitable[T]]", *on: object) -> T:
        """Do an operation of `inboxd.operations`, in the name of the user of this command."""
        who, why = actor(), self.reason
        return self.ask(lambda session: operation(session, *on, actor=who, reason=why))


@dataclass(frozen=True, kw_only=True)
class Careful(Acting):
    """What every command has that shows before what it would do."""

    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing: show what it would be done to.")
    ] = False
    yes: Yes = False

    @property
    def asks(self) -> bool:
        """Whether somebody is asked before anything is done."""
        return may_ask(yes=self.yes, json=self.json)

    def agreed(self, show: Callable[[], bool], question: str) -> bool:
        """Whether it is to be done; asked after `show`, whose result is whether there is any."""
        if not (self.dry_run or self.asks):
            return True
        return show() and not self.dry_run and typer.confirm(question, abort=True)


@dataclass(frozen=True, kw_only=True)
class Paging(Options):
    """Which part of a list."""

    limit: Annotated[
        int, typer.Option(metavar="N", min=1, max=10_000, help="Most rows to list.")
    ] = 20
    after: Annotated[
        int | None,
        typer.Option(metavar="ID", min=1, help="Go on below this row number: the last one listed."),
    ] = None

    def next(self, rows: Sequence[Mapping[str, Any]]) -> int | None:
        """Below which row the next page begins; None: there is none."""
        return rows[-1]["id"] if len(rows) == self.limit else None


def may_ask(*, yes: bool, json: bool) -> bool:
    """Whether a person can be asked, and has not given --yes."""
    return sys.stdin.isatty() and not (yes or json)


def examples(*lines: str) -> str:
    """An epilog of examples; the blank lines keep each on a line of its own."""
    return "\n\n".join(["Examples:", *(f"  {line}" for line in lines)])


def load_settings(config: Path | None) -> "Settings":
    """The settings in force, with the database of the folder's dev. Raises SettingsError."""
    from inboxd.cli.dev_place import surroundings
    from inboxd.settings import load

    return load(config, surroundings(config))


def named_in(settings: "Settings", kind: str) -> Collection[str]:
    """The topics, queues or sources that the settings name in sections of their own."""
    if kind == "topic":
        return settings.topics
    if kind == "source":
        return (*settings.inbound.webhooks, *settings.inbound.messages)
    return settings.queues if kind == "queue" else ()


def ask(
    settings: "Settings", question: "Callable[[Session], Awaitable[T]]", *, patient: bool = False
) -> T:
    """Run a function on a session of its own; patient: its statements may take any time.

    Raises DatabaseError or SchemaError.
    """
    import anyio

    from inboxd.cli.dev_place import require
    from inboxd.store.session import open_session

    require(settings)

    async def run() -> T:
        async with open_session(settings.database, patient=patient) as session:
            return await question(session)

    return anyio.run(run)


def actor() -> str:
    """The actor for the audit: the operating system's user at this host."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user id without a name
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
