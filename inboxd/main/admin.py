"""`inboxd admin`: the screens and the admin API in a process of their own; password hashes."""

import getpass
import sys

import typer

from inboxd.cli.dev_place import join, require
from inboxd.cli.groups import CommandGroup
from inboxd.cli.options import Config, examples
from inboxd.errors import UsageError
from inboxd.main.first_process import be_a_child

app = CommandGroup()

# A shorter password could be guessed from its hash.
_LEAST_CHARACTERS = 8


@app.callback(
    invoke_without_command=True,
    epilog=examples("inboxd admin -c config.toml", "inboxd admin hash"),
)
def admin(context: typer.Context, config: Config = None) -> None:
    """Serve the screens and the admin API until TERM or Ctrl-C, and process nothing.

    It needs no handlers, and serves whether or not admin.enabled is set; the database may be a
    standby. TERM or Ctrl-C: answer the open requests, then exit with 0; a second signal stops at
    once. HUP reads tokens and users again.
    """
    if context.invoked_subcommand is not None:
        return
    be_a_child()
    from inboxd.daemon import administer
    from inboxd.settings import load

    join(config)
    settings = load(config)
    require(settings, config)
    raise typer.Exit(administer(settings, config=config))


@app.command("hash", epilog=examples("inboxd admin hash", "inboxd admin hash < password.txt"))
def hash_() -> None:
    """Print the hash of a password, for password_hash of a user in admin.users.

    At a terminal, the command asks for the password twice and does not show it; elsewhere it reads
    the first line of standard input.
    """
    from inboxd.model.passwords import LONGEST, hash_password

    password = _typed() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
    if not _LEAST_CHARACTERS <= len(password) <= LONGEST:
        raise UsageError(
            f"a password must have {_LEAST_CHARACTERS} to {LONGEST} characters; this one has "
            f"{len(password)}"
        )
    typer.echo(str(hash_password(password)))


def _typed() -> str:
    password = getpass.getpass("Password: ")
    if getpass.getpass("Repeat the password: ") != password:
        raise UsageError("the two passwords differ, and no hash was made: try again")
    return password
