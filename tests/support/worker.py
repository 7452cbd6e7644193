"""A worker as its operator runs it: `python -m inboxd run -c config.toml`, in its own process.

    worker = await start_worker({"worker": {"lease": "2s"}})  # a fixture
    worker.kill()

Promises: every wait has a bound; a worker never outlives its test, whatever the test did to it.
"""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Protocol

import anyio
import anyio.to_thread

from tests.support.databases import DAYS_AHEAD, Database
from tests.support.forked import Forked, fits, fork
from tests.support.ports import held_port
from tests.support.verdicts import Late
from tests.support.waiting import WITHIN, eventually, patient

Config = Mapping[str, Mapping[str, Any]]

# Short intervals: a test with a dead worker takes seconds. A busy machine still renews in time.
_FAST: Config = {
    "worker": {
        "plugins": ["testplugin"],
        "lease": "6s",
        "heartbeat_interval": "1s",
        "poll_interval": "1s",
    },
    "history": {"days_ahead": DAYS_AHEAD},
    "log": {"format": "json", "level": "info"},  # at debug each row has two lines
}


class StartWorker(Protocol):
    """The type of the fixture `start_worker`."""

    async def __call__(
        self, config: Config = ..., *, ready: bool = True, output: int | None = None
    ) -> "Worker":
        """Start a worker on the test's database; wait until it is ready, unless `ready` is false.

        output: the file descriptor that it writes to, instead of a file.
        """


class Worker:
    """One worker process. Public attributes: `url` of its HTTP port, `log`, `process`."""

    def __init__(
        self,
        folder: Path,
        dsn: str,
        config: Config | None = None,
        *,
        forked: bool = True,
        command: Sequence[str] = ("run",),
        output: int | None = None,
    ) -> None:
        """Start a worker; `config` overrides sections of the tests' default settings.

        forked: fork an interpreter that has imported the daemon, which is fast. command: the
        arguments before the settings. output: the file descriptor that it writes to, instead of
        `log`.
        """
        held = held_port()
        port = held.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.log = folder / f"worker-{port}.log"
        settings = folder / f"worker-{port}.toml"
        base = {**_FAST, "database": {"dsn": dsn}, "http": {"port": port}}
        settings.write_text(_toml(base, config or {}))
        arguments = [*command, "-c", str(settings)]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("INBOXD_")}
        self.process: subprocess.Popen[bytes] | Forked
        # The process inherits the socket that reserves its port, so the port stays reserved.
        with held, self.log.open("wb") as log:
            written = log.fileno() if output is None else output
            if forked and fits():
                self.process = fork(arguments, environment, written, held.fileno())
                return
            self.process = subprocess.Popen(
                [sys.executable, "-m", "inboxd", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
                pass_fds=[held.fileno()],
            )

    async def ready(self, within: float = WITHIN) -> None:
        """Wait until `/readyz` answers 200. Raises Late with the log when it does not."""

        async def is_ready() -> bool:
            return self.process.poll() is not None or (await self.get("/readyz"))[0] == 200

        try:
            await eventually(is_ready, within)
        except AssertionError as error:
            raise Late(f"{error}\n{self.output()}") from error
        assert self.process.poll() is None, f"The worker ended early:\n{self.output()}"

    async def get(self, path: str) -> tuple[int, str]:
        """Status and body of a page. Raises OSError when the worker does not answer."""
        return await anyio.to_thread.run_sync(_get, self.url + path)

    async def metric(self, series: str) -> float:
        """The value of a series, `name` or `name{label="value"}`, in `/metrics`; 0 if missing."""
        # One metric only: all of them cost the worker several milliseconds, and tests ask often.
        status, page = await self.get(f"/metrics?name[]={series.partition('{')[0]}")
        assert status == 200, page
        shown = (line.rpartition(" ") for line in page.splitlines())
        return next((float(value) for name, _, value in shown if name == series), 0.0)

    async def wait(self, within: float = WITHIN) -> int:
        """Wait for the process to end; return its exit code. Raises Late with the log."""
        try:
            return await anyio.to_thread.run_sync(self.process.wait, patient(within))
        except subprocess.TimeoutExpired as error:
            raise Late(f"The worker still runs:\n{self.output()}") from error

    async def stop(self, within: float = WITHIN) -> int:
        """Make it drain (SIGTERM) and wait for its end; return its exit code."""
        self.process.terminate()
        return await self.wait(within)

    def kill(self) -> None:
        """Send SIGKILL to it and its children, and wait for its end."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(patient())

    def pause(self) -> None:
        """Freeze the process (SIGSTOP), as a stopped machine would."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    async def logged(self, text: str, within: float = WITHIN) -> None:
        """Wait until its log contains `text`."""

        async def is_logged() -> bool:
            return text in self.output()

        await eventually(is_logged, within)

    def output(self) -> str:
        """Everything it has written so far."""
        return self.log.read_text(errors="replace")


async def looked_again(
    database: Database, kind: Literal["event", "command"], *workers: Worker
) -> None:
    """Wait until each worker has swept all lanes, claimed what it may, and found no more rows.

    For tests in which nothing happens: rows that are still there were left on purpose.
    """
    looks = f'inboxd_wakeups_total{{cause="sweep",kind="{kind}"}}'
    before = [await worker.metric(looks) for worker in workers]

    async def all_have() -> bool:
        await database.execute(f"notify inboxd_{kind}s")  # the worker need not wait for its poll
        now = [await worker.metric(looks) for worker in workers]
        # A sweep is counted at its end: the first one may have begun before.
        return all(new >= old + 2 for old, new in zip(before, now, strict=True))

    await eventually(all_have)


def _get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=patient(5)) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def _toml(base: Config, changes: Config) -> str:
    """The merged settings as TOML, one line per section; changes win, an empty one removes all."""
    sections = {
        name: {**base.get(name, {}), **changes[name]}
        if changes.get(name)
        else changes.get(name, own)
        for name, own in {**changes, **base}.items()
    }
    return "\n".join(f"{name} = {_inline(values)}" for name, values in sections.items())


def _inline(value: object) -> str:
    if isinstance(value, Mapping):
        pairs = (f"{json.dumps(key)} = {_inline(item)}" for key, item in value.items())
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return json.dumps(value)  # JSON's strings, numbers and booleans are valid TOML
