"""`inboxd dev`: a complete inboxd for a developer: PostgreSQL, schema, daemon, reload.

The daemon ends first (it drains), then PostgreSQL; both end when `inboxd dev` is killed. If the
daemon does not start, it tries again when a file changes. Known limit: inboxd's own schema is
migrated only at the start.
"""

import os
import signal
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from inboxd.cli.dev_place import HOME, VARIABLE, announced, running
from inboxd.cli.options import Config, load_settings
from inboxd.errors import SettingsError, UsageError

if TYPE_CHECKING:
    from inboxd.embedded import Server
    from inboxd.main.dev_daemon import Daemon
    from inboxd.main.plugin_files import Installed
    from inboxd.settings import Settings

# Outside the range of outgoing connections, and not PostgreSQL's own port, which may be taken.
_PORT = 25432
_POLL_MILLISECONDS = 500
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def dev(
    port: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=65535,
            help=f"PostgreSQL's port; 0: any free one. Default: {_PORT}, or a free one if it is "
            "taken.",
            show_default=False,
        ),
    ] = None,
    dsn: Annotated[
        bool,
        typer.Option("--dsn", help="Print the DSN of the running dev's database, and exit."),
    ] = False,
    config: Config = None,
) -> None:
    """Run PostgreSQL with the schema, and the daemon; reload it when a plugin's files change.

    The database is in .inboxd/ of this folder; delete that to start afresh. Other commands in this
    folder use the database while this one runs.
    """
    if dsn:
        typer.echo(running())
        return
    import anyio

    from inboxd.embedded import Server
    from inboxd.main.dev_daemon import port_of_its_own
    from inboxd.store.migrations import migrate

    _require_watchfiles()
    _handle_signals()
    _hide_from_git()
    _say("Starting PostgreSQL ...")
    given = port_of_its_own("127.0.0.1", _PORT, 0) if port is None else port
    if port is None and given != _PORT:
        _say(
            f"Another process uses port {_PORT}, perhaps another project's `inboxd dev`: this "
            f"PostgreSQL uses {given}. Clients that name {_PORT} reach the other one.",
            err=True,
        )
    with Server.start(HOME, port=given or None) as server, announced(server.dsn(), config):
        os.environ[VARIABLE] = server.dsn()
        settings = load_settings(config)
        anyio.run(migrate, settings.database)
        with suppress(KeyboardInterrupt):
            _Dev(server, config, settings).serve()
        _say("Stopped.")


def _require_watchfiles() -> None:
    if find_spec("watchfiles") is None:
        raise UsageError("inboxd dev needs watchfiles: run `pip install 'inboxd[dev]'`.")


def _handle_signals() -> None:
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup ignores it
        signal.signal(signal.SIGHUP, _hang_up)


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _hang_up(_number: int, _frame: object) -> None:
    """Stop when the terminal closes; ignore further HUPs, which a shell may send again."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    raise KeyboardInterrupt


@contextmanager
def _signals_deferred() -> Iterator[None]:
    """Defer stop signals during the block: a half-started process would not be ended."""
    heard: list[int] = []
    handlers = {number: signal.getsignal(number) for number in _STOP_SIGNALS}
    for number, handler in handlers.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, lambda number, _frame: heard.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    for first in heard[:1]:
        signal.raise_signal(first)


def _hide_from_git() -> None:
    HOME.mkdir(exist_ok=True)
    ignored = HOME / ".gitignore"
    if not ignored.exists():
        ignored.write_text("*\n")


def _say(text: str, *, err: bool = False) -> None:
    with suppress(OSError):  # the terminal may be gone; the processes must still be ended in order
        typer.echo(text, err=err)


class _Dev:
    def __init__(self, server: "Server", config: Path | None, settings: "Settings") -> None:
        from inboxd.main.plugin_files import look_up

        self._server = server
        self._config = config
        self._settings = settings
        self._look_up = look_up
        self._installed = self._find_plugins()
        self._port = 0
        self._shown: dict[str, str] = {}

    def serve(self) -> None:
        from inboxd.main.dev_daemon import Daemon, migrate_plugins

        arguments = ["-c", str(self._config)] if self._config else []
        changes = self._watch()
        while True:
            environ = self._environ()
            self._introduce()
            daemon = None
            try:
                if not self._installed.migrations or migrate_plugins(arguments):
                    with _signals_deferred():
                        daemon = Daemon(arguments, environ)
                # Printed first, because the drain may take long.
                _say(f"{self._wait_for_change(changes, daemon)}: reloading.")
            finally:
                if daemon is not None:
                    daemon.stop(self._settings.worker.drain_timeout.total_seconds())
            self._read_settings()
            before, self._installed = self._installed, self._find_plugins()
            if self._installed.paths != before.paths:
                changes = self._watch()

    # ------------------------------------------------------------------------ plugins and settings

    def _find_plugins(self) -> "Installed":
        return self._look_up(self._settings.worker.plugins)

    def _read_settings(self) -> None:
        with suppress(SettingsError):  # the daemon reports it
            self._settings = load_settings(self._config)

    def _environ(self) -> Mapping[str, str]:
        from inboxd.main.dev_daemon import port_of_its_own

        http = self._settings.http
        variables = {}
        if http.enabled:
            self._port = port_of_its_own(http.host, http.port, self._port)
            variables["INBOXD_HTTP__PORT"] = str(self._port)
        for name, value in (("rows", "true"), ("format", "console")):
            if self._settings.source_of(f"log.{name}") == "default":
                variables[f"INBOXD_LOG__{name.upper()}"] = value
        return variables

    def _introduce(self) -> None:
        http, paths = self._settings.http, self._installed.paths
        facts = {"database": f"{self._server.dsn()} ({self._server.home})"}
        if http.enabled:
            host = f"[{http.host}]" if ":" in http.host else http.host
            facts["health"] = f"http://{host}:{self._port}/readyz"
            facts["metrics"] = f"http://{host}:{self._port}/metrics"
        facts["plugins"] = ", ".join(map(str, paths)) or "none installed"
        inbound = self._settings.inbound
        if inbound.http.enabled and inbound.http.port:
            from inboxd.inbound.openapi import base_url

            names = sorted(inbound.webhooks) or ["SOURCE"]
            facts["webhooks"] = ", ".join(f"{base_url(inbound.http)}/in/{name}" for name in names)
        given = f" -c {self._config}" if self._config else ""
        facts["commands"] = f"inboxd status{given}   # in this folder, commands use this database"
        facts["shell"] = f"export {VARIABLE}={self._server.dsn()}   # for other folders"
        is_first = not self._shown
        for label, text in facts.items():
            if self._shown.get(label) != text:
                _say(f"{label + ':':<9} {text}")
                if label == "plugins":
                    self._warn_of_copies()
        self._shown = facts
        if is_first:
            _say("Ctrl-C stops everything.")

    def _warn_of_copies(self) -> None:
        for plugin in self._installed.plugins:
            if plugin.is_copy:
                origin = plugin.copied_from or "its folder"
                _say(
                    f"warning:  the plugin {plugin.name} is installed as a copy: changes in "
                    f"{origin} have no effect; run `pip install -e "
                    f"{plugin.copied_from or 'FOLDER'}`",
                    err=True,
                )

    # ---------------------------------------------------------------------------------- changes

    def _watch(self) -> Iterator[object]:
        from watchfiles import DefaultFilter, watch

        return watch(
            *(self._watched() or [Path()]),
            # Without plugins this folder is watched, in which the database's files keep changing.
            watch_filter=DefaultFilter(ignore_paths=[HOME.absolute()]),
            rust_timeout=_POLL_MILLISECONDS,
            yield_on_timeout=True,
            raise_interrupt=True,
        )

    def _watched(self) -> list[Path]:
        return [*self._installed.paths, *([self._config] if self._config else [])]

    def _wait_for_change(self, changes: Iterator[object], daemon: "Daemon | None") -> str:
        files = [path for path in self._watched() if path.is_file()]
        code, places = _ages(files), _ages(map(Path, self._installed.places))
        told, unsettled = False, False
        for change in changes:
            # An editor that puts a new file in the old one's place ends the watch of a single file.
            if change or _ages(files) != code:
                return "A file changed"
            before, places = places, _ages(map(Path, self._installed.places))
            if before != places:
                unsettled = True  # an installation is under way: look when it is done
            elif unsettled:
                unsettled = False
                if self._find_plugins().plugins != self._installed.plugins:
                    return "Plugins were installed or removed"
            if daemon is not None and not told and (exit_code := daemon.ended()) is not None:
                told = True
                _say(
                    f"The daemon exited with code {exit_code}; dev restarts it when a file "
                    "changes.",
                    err=True,
                )
        raise KeyboardInterrupt  # the watch was interrupted


def _ages(paths: Iterable[Path]) -> dict[Path, int]:
    found = {}
    for path in paths:
        with suppress(OSError):
            found[path] = path.stat().st_mtime_ns
    return found
