"""`inboxd run`: the daemon in this process.

Known limit: it stays in the foreground; systemd, Docker or Kubernetes start it again.
"""

import typer

from inboxd.cli.options import Config


def run(config: Config = None) -> None:
    """Run the daemon until it gets TERM or Ctrl-C.

    TERM or Ctrl-C: stop claiming, let what runs finish, end with 0; a second one stops at once.
    HUP reads the settings again and applies what a running daemon may change (docs/settings.md).
    """
    from inboxd.daemon import run as run_daemon
    from inboxd.registry.plugins import accepted
    from inboxd.settings import read

    raise typer.Exit(run_daemon(accepted(read(config)), config=config))
