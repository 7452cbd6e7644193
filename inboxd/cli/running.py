"""`inboxd run` and `inboxd receive`: the daemon, or its receiver alone, in this process.

Known limit: it stays in the foreground; systemd, Docker or Kubernetes start it again.
"""

from typing import Annotated

import typer

from inboxd.cli.dev_place import join, require
from inboxd.cli.first_process import be_a_child
from inboxd.cli.options import Config
from inboxd.errors import SettingsError

Processes = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        max=1000,
        help="Run so many processes under a supervisor, which starts again what ends, shows all "
        "on one HTTP port, and upgrades them at USR2. Without it: one process alone.",
        show_default=False,
    ),
]


def run(config: Config = None, processes: Processes = None) -> None:
    """Run the daemon until it gets TERM or Ctrl-C.

    TERM or Ctrl-C: stop claiming, let what runs finish, end with 0; a second one stops at once.
    HUP reads the settings again and applies what a running daemon may change (docs/settings.md).
    """
    be_a_child()
    from inboxd.daemon import run as run_daemon
    from inboxd.registry.plugins import accepted
    from inboxd.settings import read

    join(config)
    settings = accepted(read(config))
    require(settings)
    if processes is not None:
        from inboxd.daemon.addresses import addresses
        from inboxd.daemon.launch import supervise

        http, admin = settings.inbound.http, settings.admin
        sign_in = bool(admin.users or admin.oidc)
        if admin.enabled and sign_in and admin.session_secret_file is None:
            raise SettingsError(
                "[admin]: several processes share sign-ins by session_secret_file; set it "
                "(`openssl rand -hex 32` makes a secret), or serve the screens by `inboxd admin`"
            )
        served = addresses(settings, receives=http.enabled, administers=admin.enabled)
        supervise(settings, served, processes)
    raise typer.Exit(run_daemon(settings, config=config))


def receive(config: Config = None, processes: Processes = None) -> None:
    """Receive webhooks until TERM or Ctrl-C, and process nothing.

    It needs no handlers, and listens whether or not inbound.http.enabled is set. TERM or Ctrl-C:
    accept nothing more, answer what is under way, end with 0; a second one stops at once. HUP reads
    the sources of webhooks again: keys, rates, what is paused, and the certificate's files.
    """
    be_a_child()
    from inboxd.daemon import receive as run_receiver
    from inboxd.settings import load

    join(config)
    settings = load(config)
    require(settings)
    if processes is not None:
        from inboxd.daemon.addresses import addresses
        from inboxd.daemon.launch import supervise

        supervise(settings, addresses(settings, receives=True), processes)
    raise typer.Exit(run_receiver(settings, config=config))
