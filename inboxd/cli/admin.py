"""`inboxd admin`: the screens and the admin API, alone in this process; hashes for their users.

Known limit: it stays in the foreground; systemd, Docker or Kubernetes start it again.
"""

import getpass
import sys

import typer

from inboxd.cli.dev_place import join, require
from inboxd.cli.first_process import be_a_child
from inboxd.cli.groups import CommandGroup
from inboxd.cli.options import Config, examples
from inboxd.errors import UsageError

app = CommandGroup()

# Fewer characters could be guessed by whoever gets at the hash.
_LEAST = 8


@app.callback(
    invoke_without_command=True,
    epilog=examples("inboxd admin -c config.toml", "inboxd admin hash"),
)
def admin(context: typer.Context, config: Config = None) -> None:
    """Serve the screens and the admin API until TERM or Ctrl-C, and process nothing.

    It needs no handlers, and serves whether or not admin.enabled is set; the database may be a
    standby. TERM or Ctrl-C: answer what is under way, end with 0; a second one stops at once. HUP
    reads tokens and users again.
    """
    if context.invoked_subcommand is not None:
        return
    be_a_child()
    from inboxd.daemon import administer
    from inboxd.settings import load

    join(config)
    settings = load(config)
    require(settings)
    raise typer.Exit(administer(settings, config=config))


@app.command("hash", epilog=examples("inboxd admin hash", "inboxd admin hash < password.txt"))
def hash_() -> None:
    """Print the hash of a password, for password_hash of a user in admin.users.

    The password is asked for twice and not shown; without a terminal it is the first line of
    standard input.
    """
    from inboxd.model.passwords import LONGEST, hash_password

    password = _typed() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
    if not _LEAST <= len(password) <= LONGEST:
        raise UsageError(f"a password has {_LEAST} to {LONGEST} characters; this one has not")
    typer.echo(str(hash_password(password)))


def _typed() -> str:
    password = getpass.getpass("Password: ")
    if getpass.getpass("The same again: ") != password:
        raise UsageError("these are two passwords; nothing is made of them: try again")
    return password
