"""Options that many commands share, and the settings they lead to.

Promises: `-c` means the same before and after the command's name; the nearer one wins.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from inboxd.settings import Settings


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


def load_settings(config: Path | None) -> "Settings":
    """The settings in force. Raises SettingsError."""
    from inboxd.settings import load

    return load(config)
