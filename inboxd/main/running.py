"""`inboxd run` and `inboxd receive`: the daemon, or its receiver alone, in the foreground."""

from typing import Annotated

import typer

from inboxd.cli.dev_place import join, require
from inboxd.cli.options import Config
from inboxd.errors import SettingsError
from inboxd.main.first_process import be_a_child

Processes = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        max=1000,
        help="Run N processes under a supervisor, which restarts ended ones, serves one HTTP port "
        "for all, and upgrades them at USR2. Default: one process without a supervisor.",
        show_default=False,
    ),
]


def run(config: Config = None, processes: Processes = None) -> None:
    """Run the daemon until it gets TERM or Ctrl-C.

    TERM or Ctrl-C: stop claiming, let running handlers finish, then exit with 0; a second signal
    stops at once. HUP reloads the settings that may change while it runs (docs/configuration.md).
    """
    be_a_child()
    from inboxd.daemon import run as run_daemon
    from inboxd.registry.plugins import accepted
    from inboxd.settings import read

    join(config)
    settings = accepted(read(config))
    require(settings, config)
    if processes is not None:
        from inboxd.daemon.addresses import addresses
        from inboxd.daemon.launch import supervise

        http, admin = settings.inbound.http, settings.admin
        sign_in = bool(admin.users or admin.oidc)
        if admin.enabled and sign_in and admin.session_secret_file is None:
            raise SettingsError(
                "[admin]: several processes need session_secret_file to share sign-ins: set it "
                "(`openssl rand -hex 32` makes a secret), or serve the screens by `inboxd admin`"
            )
        served = addresses(settings, receives=http.enabled, administers=admin.enabled)
        supervise(settings, served, processes)
    raise typer.Exit(run_daemon(settings, config=config))


def receive(config: Config = None, processes: Processes = None) -> None:
    """Receive webhooks until TERM or Ctrl-C, and process nothing.

    It needs no handlers, and listens whether or not inbound.http.enabled is set. TERM or Ctrl-C:
    accept no more connections, answer the open requests, then exit with 0; a second signal stops at
    once. HUP reloads the webhook sources with their keys, rates and pauses, and the certificate.
    """
    be_a_child()
    from inboxd.daemon import receive as run_receiver
    from inboxd.settings import load

    join(config)
    settings = load(config)
    require(settings, config)
    if processes is not None:
        from inboxd.daemon.addresses import addresses
        from inboxd.daemon.launch import supervise

        supervise(settings, addresses(settings, receives=True), processes)
    raise typer.Exit(run_receiver(settings, config=config))
