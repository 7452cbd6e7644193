"""`inboxd dev`: a whole inboxd for a developer: PostgreSQL, schema, daemon, reload.

Promises: Ctrl-C or TERM ends the daemon first (it drains), then PostgreSQL; a daemon that does not
start stays down until a file changes. Known limits: a killed `inboxd dev` (SIGKILL) takes its
PostgreSQL along but leaves the daemon, which then waits for a database; new plugins are found by
starting it again.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from inboxd.cli.options import Config, load_settings
from inboxd.errors import UsageError

if TYPE_CHECKING:
    from inboxd.embedded import Server
    from inboxd.settings import Settings

# Outside the range of outgoing connections, and not the one of a PostgreSQL that may run already.
_PORT = 25432
_HOME = Path(".inboxd")
_LOOK_MILLISECONDS = 500
_GRACE_SECONDS = 10.0


def dev(
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="Of PostgreSQL; 0: any free one.")
    ] = _PORT,
    config: Config = None,
) -> None:
    """Run PostgreSQL, the schema and the daemon here, and reload it when a plugin's files change.

    The database lives in .inboxd/ of this folder; delete it to start afresh.
    """
    import anyio

    from inboxd.embedded import Server
    from inboxd.store.migrations import migrate

    _require_watchfiles()
    signal.signal(signal.SIGTERM, _interrupt)
    typer.echo("Starting PostgreSQL ...")
    with Server.start(_HOME, port=port or None) as server:
        os.environ["INBOXD_DATABASE__DSN"] = server.dsn()
        settings = load_settings(config)
        anyio.run(migrate, settings.database)
        folders = _plugin_files(settings)
        _introduce(server, settings, folders)
        _serve(config, [*folders, *([config] if config else [])], settings)


def _require_watchfiles() -> None:
    if find_spec("watchfiles") is None:
        raise UsageError("inboxd dev needs watchfiles: run `pip install 'inboxd[dev]'`.")


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _introduce(server: "Server", settings: "Settings", folders: list[Path]) -> None:
    typer.echo(f"database: {server.dsn()} ({server.home})")
    if settings.http.enabled:
        typer.echo(f"health:   http://{settings.http.host}:{settings.http.port}/readyz")
        typer.echo(f"metrics:  http://{settings.http.host}:{settings.http.port}/metrics")
    typer.echo(f"plugins:  {', '.join(map(str, folders)) or 'none is installed'}")
    typer.echo(f"commands: export INBOXD_DATABASE__DSN={server.dsn()}   # in another terminal")
    typer.echo("Ctrl-C stops everything.")


def _plugin_files(settings: "Settings") -> list[Path]:
    """Where the plugins' code lies. Found without importing it: only the daemon runs it."""
    wanted = settings.worker.plugins
    found: set[Path] = set()
    for point in entry_points(group="inboxd.handlers"):
        if wanted and point.name not in wanted:
            continue
        spec = find_spec(point.module.partition(".")[0])
        if spec is not None and spec.submodule_search_locations:
            found |= {Path(place) for place in spec.submodule_search_locations}
        elif spec is not None and spec.origin:
            found.add(Path(spec.origin))
    return sorted(path for path in found if path.exists())


def _serve(config: Path | None, watched: list[Path], settings: "Settings") -> None:
    """Run the daemon, a new one after each change, until interrupted."""
    from watchfiles import DefaultFilter, watch

    drain = settings.worker.drain_timeout.total_seconds() + _GRACE_SECONDS
    changes = watch(
        *(watched or [Path()]),
        # Without a plugin this folder is watched, and the database's files change all the time.
        watch_filter=DefaultFilter(ignore_paths=[_HOME.absolute()]),
        rust_timeout=_LOOK_MILLISECONDS,
        yield_on_timeout=True,
        raise_interrupt=True,
    )
    try:
        while True:
            with _daemon(config, drain) as process:
                _wait_for_change(changes, process)
            typer.echo("A file changed: reloading.")
    except KeyboardInterrupt:
        typer.echo("Stopped.")


def _wait_for_change(changes: Iterator[object], process: "subprocess.Popen[bytes]") -> None:
    ended = False
    for change in changes:
        if change:
            return
        if not ended and process.poll() is not None:
            ended = True
            typer.echo(
                f"The daemon ended with exit code {process.returncode}; it starts again when a "
                "file changes.",
                err=True,
            )


@contextmanager
def _daemon(config: Path | None, drain: float) -> "Iterator[subprocess.Popen[bytes]]":
    """A daemon in a session of its own: Ctrl-C reaches it once, from here, and so drains it."""
    command = [sys.executable, "-m", "inboxd", "run", *(["-c", str(config)] if config else [])]
    process = subprocess.Popen(command, start_new_session=True)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(drain)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
