"""Options that many commands share, how their texts are read, and the session they lead to.

Promises: `-c` means the same before and after the command's name, and the nearer one wins; a text
that cannot be read is refused before anything is asked of the database.
"""

from collections.abc import Awaitable, Callable, Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar
from uuid import UUID

import typer

from inboxd.errors import UsageError

if TYPE_CHECKING:
    from inboxd.settings import Settings
    from inboxd.store.session import Session

T = TypeVar("T")

_LARGEST = 2**63 - 1


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
Ids = Annotated[
    list[str],
    typer.Argument(metavar="ID", help="Row numbers or uuids.", show_default=False),
]
Id = Annotated[str, typer.Argument(metavar="ID", help="Row number or uuid.", show_default=False)]
At = Annotated[
    str,
    typer.Option("--at", metavar="TIME", help="When: now, 2h from now, or a time in ISO 8601."),
]
Force = Annotated[bool, typer.Option("--force", help="Insist on a name that nothing declares.")]
Reason = Annotated[str | None, typer.Option(metavar="TEXT", help="Why; it is kept in the audit.")]


def examples(*lines: str) -> str:
    """An epilog of examples; the blank lines keep each on a line of its own."""
    return "\n\n".join(["Examples:", *(f"  {line}" for line in lines)])


def load_settings(config: Path | None) -> "Settings":
    """The settings in force. Raises SettingsError."""
    from inboxd.settings import load

    return load(config)


def named_in(settings: "Settings", kind: str) -> Collection[str]:
    """The topics or queues that the settings name in sections of their own."""
    if kind == "topic":
        return settings.topics
    return settings.queues if kind == "queue" else ()


def ask(
    settings: "Settings", question: "Callable[[Session], Awaitable[T]]", *, patient: bool = False
) -> T:
    """Run a function on a session of its own; patient: its statements may take any time.

    Raises DatabaseError or SchemaError.
    """
    import anyio

    from inboxd.store.session import open_session

    async def run() -> T:
        async with open_session(settings.database, patient=patient) as session:
            return await question(session)

    return anyio.run(run)


def read_id(text: str) -> int | UUID:
    """A row number or a uuid. Raises UsageError."""
    if text.isascii() and text.isdigit() and int(text) <= _LARGEST:
        return int(text)
    return read_uuid(text, "a row number or a uuid")


def read_uuid(text: str, expected: str = "a uuid") -> UUID:
    """Raises UsageError when the text is none."""
    try:
        return UUID(text)
    except ValueError:
        raise UsageError(f"{text!r} is not {expected}.") from None


def read_since(text: str) -> datetime:
    """A time: a duration before now ("2h"), or ISO 8601, in local time if it names no zone.

    Raises UsageError.
    """
    return _read_time(text, -1)


def read_until(text: str) -> datetime:
    """A time: "now", a duration from now ("2h"), or ISO 8601 as above. Raises UsageError."""
    return _read_time("0s" if text == "now" else text, 1)


def _read_time(text: str, direction: int) -> datetime:
    from inboxd.model import duration

    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    try:
        return datetime.now(UTC) + direction * duration.parse(text)
    except (UsageError, OverflowError):
        raise UsageError(
            f"{text!r} is neither a duration such as 2h nor a time such as 2026-01-31T08:00."
        ) from None
