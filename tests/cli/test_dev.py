"""`inboxd dev`: everything starts, a changed plugin reloads the daemon, Ctrl-C ends it all."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import asyncpg
import pytest

from tests.support import eventually
from tests.support.ports import held_port

PLUGIN = """
from inboxd import Event, EventContext, Handlers

handlers = Handlers("dev")
"""
HANDLER = """
@handlers.event("dev.{name}")
async def {name}(event: Event[dict[str, int]], ctx: EventContext) -> None:
    '''Do nothing.'''
"""


class Dev:
    """A running `inboxd dev` on a plugin of its own."""

    def __init__(self, folder: Path) -> None:
        self.plugin = folder / "devplugin.py"
        self.plugin.write_text(PLUGIN + HANDLER.format(name="one"))
        info = folder / "devplugin-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: devplugin\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[inboxd.handlers]\ndev = devplugin:handlers\n")
        self.log = folder / "log"
        with held_port() as held, self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-u", "-m", "inboxd", "dev", "--port", "0"],
                cwd=folder,
                env={
                    **os.environ,
                    "PYTHONPATH": str(folder),
                    "INBOXD_WORKER__PLUGINS": "dev",
                    "INBOXD_HTTP__PORT": str(held.getsockname()[1]),
                    "INBOXD_LOG__FORMAT": "json",
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=[held.fileno()],
            )

    async def wrote(self, text: str, times: int = 1) -> None:
        """Wait until its output holds `text` so many times."""

        async def written() -> bool:
            assert self.log.read_text().count(text) >= times, self.log.read_text()
            return True

        await eventually(written)

    @property
    def url(self) -> str:
        """The database's, as it was printed."""
        line = next(x for x in self.log.read_text().splitlines() if x.startswith("database: "))
        return line.split()[1]


@pytest.fixture
def dev() -> Iterator[Dev]:
    folder = Path(tempfile.mkdtemp(prefix="inboxd-test-"))
    folder.chmod(0o755)  # root's PostgreSQL runs as another user
    running = Dev(folder)
    yield running
    if running.process.poll() is None:
        running.process.terminate()
        running.process.wait(60)
    sys.stdout.write(running.log.read_text())
    shutil.rmtree(folder)


@pytest.mark.anyio
async def test_dev_reloads_and_stops_cleanly(dev: Dev) -> None:
    await dev.wrote('"message":"ready"')
    assert '"events":1' in dev.log.read_text()

    dev.plugin.write_text(PLUGIN + HANDLER.format(name="one") + HANDLER.format(name="two"))
    await dev.wrote('"message":"ready"', times=2)
    assert '"events":2' in dev.log.read_text()

    dev.plugin.write_text("this is no Python")
    await dev.wrote("The daemon ended with exit code 78")
    dev.plugin.write_text(PLUGIN + HANDLER.format(name="one"))
    await dev.wrote('"message":"ready"', times=3)

    url = dev.url
    connection = await asyncpg.connect(url)
    assert await connection.fetchval("SELECT count(*) FROM inboxd.workers") == 3
    await connection.close()

    dev.process.send_signal(signal.SIGINT)
    assert await anyio.to_thread.run_sync(dev.process.wait, 60) == 0
    assert dev.log.read_text().count('"message":"stopped"') == 3
    with pytest.raises(ConnectionRefusedError):
        await asyncpg.connect(url, timeout=5)
