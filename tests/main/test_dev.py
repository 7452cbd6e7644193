"""`inboxd dev` starts all processes, reloads a changed plugin, and ends all processes."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import urllib.request
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import asyncpg
import pytest

from inboxd.cli.dev_place import announced
from inboxd.embedded import free_port
from tests.cli.conftest import Cli
from tests.support import eventually
from tests.support.plugins import install, write_migrations
from tests.support.waiting import patient

PLUGIN = """
import asyncio

from inboxd import Event, EventContext, Handlers

handlers = Handlers("dev")
"""
HANDLER = """
@handlers.event("dev.{name}")
async def {name}(event: Event[dict[str, int]], ctx: EventContext) -> None:
    if "bad" in event.payload:
        raise KeyError("missing")
    if "hangs" in event.payload:
        ctx.log.info("hangs")
        await asyncio.Event().wait()  # until it is cancelled
"""


class Dev:
    """A running `inboxd dev` with a plugin of its own."""

    def __init__(
        self,
        folder: Path,
        python: str = sys.executable,
        port: Sequence[str] = ("--port", "0"),
        **variables: str,
    ) -> None:
        self.folder = folder
        self.taken = ""
        self.plugin = folder / "devplugin.py"
        self.log = folder / "log"
        given = {
            **os.environ,
            "INBOXD_WORKER__PLUGINS": "dev",
            "INBOXD_LOG__FORMAT": "json",
            **variables,
        }
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [python, "-u", "-m", "inboxd", "dev", *port],
                cwd=folder,
                env={name: value for name, value in given.items() if value},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    async def wrote(self, text: str, times: int = 1) -> str:
        """Wait until the output contains `text` this many times; returns all output."""

        async def written() -> bool:
            assert self.log.read_text().count(text) >= times, self.log.read_text()
            return True

        await eventually(written)
        return self.log.read_text()

    def said(self, label: str) -> list[str]:
        """Return the values that it printed after a label, such as the database's URL."""
        lines = self.log.read_text().splitlines()
        return [x.partition(":")[2].strip() for x in lines if x.startswith(f"{label}:")]

    @property
    def url(self) -> str:
        """The URL of the database."""
        return self.said("database")[0].split()[0]

    @property
    def server(self) -> int:
        """The process id of PostgreSQL."""
        home = self.said("database")[0].partition(" (")[2].rstrip(")")
        return int((Path(home) / "cluster/postmaster.pid").read_text().split()[0])

    async def daemon(self) -> int:
        """Return the process id of the living daemon."""
        connection = await asyncpg.connect(self.url)
        try:
            pid: int = await connection.fetchval(
                "SELECT pid FROM inboxd.workers ORDER BY started_at DESC LIMIT 1"
            )
        finally:
            await connection.close()
        return pid


def _install(folder: Path, origin: Path | None = None) -> None:
    """Write the metadata of an installed plugin, as pip does."""
    info = folder / "devplugin-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: devplugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[inboxd.handlers]\ndev = devplugin:handlers\n")
    if origin is not None:
        (info / "direct_url.json").write_text(json.dumps({"url": origin.as_uri(), "dir_info": {}}))


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="inboxd-test-")).resolve()
    made.chmod(0o755)  # root's PostgreSQL runs as another user
    yield made
    shutil.rmtree(made)


@pytest.fixture
def dev(folder: Path) -> Iterator[Dev]:
    (folder / "devplugin.py").write_text(PLUGIN + HANDLER.format(name="one"))
    _install(folder)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        running = Dev(folder, PYTHONPATH=str(folder), INBOXD_HTTP__PORT=port)
        running.taken = port
        yield running
    _end(running)


def _end(running: Dev) -> None:
    if running.process.poll() is None:
        running.process.terminate()
        running.process.wait(patient(60))
    sys.stdout.write(running.log.read_text())


@pytest.mark.anyio
async def test_dev_reloads_and_stops_cleanly(dev: Dev) -> None:
    await dev.wrote('"message":"ready"')
    assert '"events":1' in dev.log.read_text()
    assert (dev.folder / ".inboxd/.gitignore").read_text() == "*\n"

    # Another process has the configured port, so dev took another one.
    [health] = dev.said("health")
    assert f":{dev.taken}/" not in health
    [metrics] = dev.said("metrics")
    with await anyio.to_thread.run_sync(urllib.request.urlopen, metrics) as answer:
        assert answer.status == 200

    # Commands in its folder use its database without a DSN.
    told = await anyio.to_thread.run_sync(_command, dev.folder, "dev", "--dsn")
    assert told.stdout == f"{dev.url}\n"
    told = await anyio.to_thread.run_sync(_command, dev.folder, "status", "--json")
    assert json.loads(told.stdout)["workers"], told.stderr

    # The log has settled rows, and failed ones with file, line and traceback.
    connection = await asyncpg.connect(dev.url)
    await connection.execute(
        "INSERT INTO inboxd.events (type, payload) "
        """VALUES ('dev.one', '{}'), ('dev.one', '{"bad": 1}')"""
    )
    output = await dev.wrote('"type":"dev.one","id":1,"topic":"default","ms":')
    assert _line(output, "event succeeded")["sent"] == 0
    output = await dev.wrote('"type":"dev.one","id":2,')
    failed = _line(output, "event did not succeed")
    assert failed["level"] == "warning"
    assert failed["at"] == f"{dev.plugin}:{_number(dev.plugin, 'raise KeyError')} in one"
    assert "raise KeyError" in failed["exception"]

    dev.plugin.write_text(PLUGIN + HANDLER.format(name="one") + HANDLER.format(name="two"))
    output = await dev.wrote('"message":"ready"', times=2)
    assert '"events":2' in output
    said = [output.index(x) for x in ("A file changed: reloading.", "draining", '"stopped"')]
    assert said == sorted(said), "the reason of the drain is printed before it"

    dev.plugin.write_text("def broken(:\n")
    output = await dev.wrote("The daemon exited with code 78")
    assert f"SyntaxError: invalid syntax, at {dev.plugin}:1: def broken(:" in output
    dev.plugin.write_text(PLUGIN + HANDLER.format(name="one"))
    await dev.wrote('"message":"ready"', times=3)
    assert dev.said("health") == [health], "a reload keeps the URL"

    # The first Ctrl-C drains, and logs the running rows; the second one stops them at once.
    assert await connection.fetchval("SELECT count(*) FROM inboxd.workers") == 3
    await connection.execute(
        """INSERT INTO inboxd.events (type, payload) VALUES ('dev.one', '{"hangs": 1}')"""
    )
    await connection.close()
    await dev.wrote('"message":"hangs"')
    url = dev.url
    dev.process.send_signal(signal.SIGINT)
    output = await dev.wrote('"message":"draining"', times=3)
    drained = json.loads(next(x for x in reversed(output.splitlines()) if '"draining"' in x))
    assert (drained["running"], drained["types"]) == (1, {"dev.one": 1})
    dev.process.send_signal(signal.SIGINT)
    assert await anyio.to_thread.run_sync(dev.process.wait, 20) == 0
    assert dev.log.read_text().count('"message":"stopped"') == 3
    with pytest.raises(ConnectionRefusedError):
        await asyncpg.connect(url, timeout=patient())
    told = await anyio.to_thread.run_sync(_command, dev.folder, "status")
    assert told.returncode == 69
    assert "the settings name no database, and `inboxd dev` does not run in" in told.stderr


@pytest.mark.anyio
async def test_taken_port_and_place_of_webhooks_are_reported_for_people(folder: Path) -> None:
    """The log in a file is for people too, unless `log.format` is set."""
    (folder / "devplugin.py").write_text(PLUGIN + HANDLER.format(name="one"))
    _install(folder)
    variables = {
        "PYTHONPATH": str(folder),
        "INBOXD_HTTP__PORT": "0",
        "INBOXD_LOG__FORMAT": "",
        "INBOXD_INBOUND__HTTP__ENABLED": "true",
        "INBOXD_INBOUND__HTTP__PORT": str(free_port()),
    }
    with ExitStack() as stack:
        with suppress(OSError):  # another process may have the port already, which is fine
            stack.enter_context(socket.create_server(("127.0.0.1", 25432)))
        dev = Dev(folder, port=(), **variables)
        try:
            output = await dev.wrote(" ready ")
        finally:
            _end(dev)
    port = dev.url.rpartition(":")[2].partition("/")[0]
    assert port != "25432"
    assert "Another process uses port 25432" in output
    assert f"this PostgreSQL uses {port}" in output
    inbound = variables["INBOXD_INBOUND__HTTP__PORT"]
    assert dev.said("webhooks") == [f"http://127.0.0.1:{inbound}/in/SOURCE"]
    assert not [line for line in output.splitlines() if line.startswith("{")]


def _command(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run another command in the folder."""
    environ = {name: value for name, value in os.environ.items() if name != "INBOXD_DATABASE__DSN"}
    return subprocess.run(
        [sys.executable, "-m", "inboxd", *words],
        cwd=folder,
        env={**environ, "PYTHONPATH": str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=patient(60),
        check=False,
    )


@pytest.mark.parametrize("command", ["declare", "migrate", "status"])
def test_stopped_dev_refuses_commands_with_its_settings_from_elsewhere(
    command: str, tmp_path: Path, run_cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = tmp_path / "shop"
    (shop / ".inboxd").mkdir(parents=True)
    (shop / "config.toml").write_text('[worker]\nplugins = ["testplugin"]\n')
    monkeypatch.delenv("INBOXD_DATABASE__DSN", raising=False)
    monkeypatch.chdir(shop)
    with announced("postgresql://postgres@127.0.0.1:30157/postgres", Path("config.toml")):
        pass
    monkeypatch.chdir(tmp_path)
    told = run_cli(command, "-c", "shop/config.toml")
    assert told.code == 69
    assert f"`inboxd dev` does not run in {shop}: start it there" in told.err


@pytest.mark.parametrize(
    ("given", "more"),
    [
        (["-c", "../other/inboxd.toml"], {}),
        ([], {"INBOXD_DATABASE": '{"dsn": "postgresql://127.0.0.1:2/explicit"}'}),
    ],
    ids=["settings of another folder", "database as JSON"],
)
def test_running_dev_does_not_replace_the_database_of_other_settings(
    given: list[str],
    more: dict[str, str],
    tmp_path: Path,
    run_cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "here/.inboxd").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/inboxd.toml").write_text('[worker]\nname = "w"\n')
    monkeypatch.delenv("INBOXD_DATABASE__DSN", raising=False)
    monkeypatch.chdir(tmp_path / "here")
    for name, value in more.items():
        monkeypatch.setenv(name, value)
    with announced("postgresql://postgres@127.0.0.1:1/of_dev", None):
        shown = run_cli("check", *given)
    assert "database" in shown.out
    assert "of_dev" not in shown.out + shown.err


@pytest.mark.anyio
@pytest.mark.long
async def test_new_migrations_run_and_a_failed_one_waits_for_a_change(
    folder: Path,
) -> None:
    install(folder, "dev", PLUGIN, migrations={"0001_notes.sql": "CREATE TABLE notes ();"})
    dev = Dev(folder, PYTHONPATH=str(folder), INBOXD_HTTP__PORT="0")
    try:
        output = await dev.wrote('"message":"ready"')
        assert output.index("migrated: dev 0001_notes") < output.index('"message":"ready"')
        assert str(folder / "dev_migrations") in dev.said("plugins")[0], "its files are watched"
        write_migrations(folder, "dev", {"0002_more.sql": "ALTER TABLE notes ADD\n nothing;"})
        output = await dev.wrote("tries again when a file changes")
        assert "plugin 'dev': migration 0002_more failed at line 2" in output
        write_migrations(folder, "dev", {"0002_more.sql": "ALTER TABLE notes ADD text text;"})
        output = await dev.wrote('"message":"ready"', times=2)
        assert output.count("migrated: dev") == len(["0001_notes", "0002_more"])
    finally:
        _end(dev)


@pytest.mark.anyio
@pytest.mark.long
async def test_settings_replaced_by_an_editor_reload_the_daemon_each_time(
    folder: Path,
) -> None:
    """A replaced file, as most editors write it, ends the watch of the old file."""
    (folder / "devplugin.py").write_text(PLUGIN + HANDLER.format(name="one"))
    _install(folder)
    config, other = folder / "config.toml", folder / "other.toml"
    config.write_text('[worker]\nname = "dev-1"\n')
    variables = {"PYTHONPATH": str(folder), "INBOXD_HTTP__PORT": "0"}
    dev = Dev(folder, **variables, INBOXD_CONFIG=str(config))
    try:
        await dev.wrote('"message":"ready"')
        for number in (2, 3):
            other.write_text(f'[worker]\nname = "dev-{number}"\n')
            other.replace(config)
            output = await dev.wrote('"message":"ready"', times=number)
            assert f'"worker":"dev-{number}"' in output
    finally:
        _end(dev)


@pytest.mark.anyio
@pytest.mark.usefixtures("hang_ups")
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL])
@pytest.mark.long
async def test_processes_end_with_their_terminal_or_parent(
    dev: Dev, number: signal.Signals
) -> None:
    """A closed window sends SIGHUP, an IDE may send SIGKILL."""
    await dev.wrote('"message":"ready"')
    daemon, server = await dev.daemon(), dev.server
    assert _lives(daemon)
    assert _lives(server)
    dev.process.send_signal(number)
    if number == signal.SIGHUP:
        with suppress(ProcessLookupError):  # a shell may send the signal a second time
            dev.process.send_signal(number)
    code = await anyio.to_thread.run_sync(dev.process.wait, 60)
    assert code == (0 if number == signal.SIGHUP else -signal.SIGKILL)

    async def all_have_ended() -> bool:
        return not _lives(daemon) and not _lives(server)

    await eventually(all_have_ended)
    if number == signal.SIGHUP:
        assert '"message":"stopped"' in dev.log.read_text()


def _lives(pid: int) -> bool:
    """Whether the process runs; a zombie that waits for init does not count."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2]
    except FileNotFoundError:
        return False
    return not state.startswith("Z")


@pytest.mark.anyio
@pytest.mark.long
async def test_installed_copy_is_reported_and_its_editable_successor_found(folder: Path) -> None:
    environment, code = folder / "venv", folder / "code with blanks"
    venv.create(environment, symlinks=True)
    python = environment / "bin/python"
    [site] = environment.glob("lib/python*/site-packages")
    (site / "all-that-tests-have.pth").write_text(
        f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})"
    )
    for place in (site, code):
        (place / "devplugin").mkdir(parents=True)
        (place / "devplugin/__init__.py").write_text(PLUGIN + HANDLER.format(name="one"))
    _install(site, origin=code)
    dev = Dev(folder, str(python), INBOXD_HTTP__PORT="0")
    try:
        output = await dev.wrote('"message":"ready"')
        assert dev.said("plugins") == [str(site / "devplugin")]
        assert f"changes in {code} have no effect; run `pip install -e {code}`" in output
        [health] = dev.said("health")
        assert ":0/" not in health

        # pip removes the copy first, and then writes the path of the folder.
        shutil.rmtree(site / "devplugin")
        await dev.wrote("reloading.")
        (site / "devplugin.pth").write_text(str(code))
        await dev.wrote(f"plugins:  {code / 'devplugin'}")
        before = dev.log.read_text().count('"message":"ready"')
        (code / "devplugin/__init__.py").write_text(
            PLUGIN + HANDLER.format(name="one") + HANDLER.format(name="two")
        )
        await dev.wrote('"events":2')
        assert dev.log.read_text().count('"message":"ready"') > before
        assert dev.log.read_text().count("installed as a copy") == 1
    finally:
        _end(dev)


def _line(output: str, message: str) -> Mapping[str, Any]:
    """Return the first line of the log with this message."""
    lines = (json.loads(line) for line in output.splitlines() if line.startswith("{"))
    return next(line for line in lines if line["message"] == message)


def _number(file: Path, text: str) -> int:
    """Return the number of the first line that begins with the text."""
    lines = file.read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if line.strip().startswith(text))
