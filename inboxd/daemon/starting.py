"""Starts `inboxd run`, `inboxd receive` and `inboxd admin`: a process with its programs."""

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from inboxd.daemon.addresses import addresses
from inboxd.daemon.hosted_worker import HostedWorker
from inboxd.daemon.process import Process, Program
from inboxd.daemon.process_number import process_number
from inboxd.registry.plugins import accepted, load_plugins
from inboxd.settings import Settings, load, read
from inboxd.telemetry import logs
from inboxd.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from inboxd.daemon.hosted_spool import HostedSpool


def run(settings: Settings, *, config: Path | None = None) -> int:
    """Returns the exit code. config: read again at HUP. Raises InboxdError."""
    _configure_log(settings)
    receives = settings.inbound.http.enabled
    plugins = load_plugins(settings.worker.plugins)
    process = Process(
        settings,
        Metrics(version("inboxd")),
        lambda: accepted(read(config), plugins),
        addresses(settings, receives=receives, administers=settings.admin.enabled),
    )
    worker = HostedWorker(process, plugins, patient=receives)
    programs: list[Program] = [*([_receiver(process)] if receives else []), worker]
    if settings.admin.enabled:
        programs.append(_admin(process, _spool(settings) if receives else None))
    return process.host(*programs)


def receive(settings: Settings, *, config: Path | None = None) -> int:
    """Like `run`, but it loads no handlers, claims nothing, and is not a worker."""
    _configure_log(settings)
    process = Process(
        settings,
        Metrics(version("inboxd")),
        lambda: load(config),
        addresses(settings, receives=True),
    )
    return process.host(_receiver(process))


def administer(settings: Settings, *, config: Path | None = None) -> int:
    """Like `run`, but it loads no handlers, claims nothing, and is not a worker."""
    _configure_log(settings)
    process = Process(
        settings,
        Metrics(version("inboxd")),
        lambda: load(config),
        addresses(settings, receives=False, administers=True),
    )
    return process.host(_admin(process))


def _receiver(process: Process) -> Program:
    # Imported late: costs memory, and few daemons receive.
    from inboxd.daemon.receiver import HostedReceiver  # noqa: PLC0415

    return HostedReceiver(process)


def _admin(process: Process, spool: "HostedSpool | None" = None) -> Program:
    from inboxd.daemon.hosted_admin import HostedAdmin  # noqa: PLC0415 - few daemons serve it

    return HostedAdmin(process, spool)


def _spool(settings: Settings) -> "HostedSpool | None":
    from inboxd.daemon.hosted_spool import hosted_spool  # noqa: PLC0415 - few daemons serve it

    return hosted_spool(settings)


def _configure_log(settings: Settings) -> None:
    log = settings.log
    logs.configure(
        log.level,
        log.format,
        rows=log.rows,
        worker=settings.worker.name,
        process=process_number(),
    )
