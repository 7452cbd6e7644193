"""Users register while the accounts service is slow, down and busy; all get their accounts.

`make demo-accounts` runs it. It starts a PostgreSQL of its own, the registration, `inboxd run` with
this folder's plugin, an accounts service and a payment gateway, each as a process. The accounts
service answers too late, is down for ten seconds, and answers 429 when it is back; the gateway
loses answers after the charge. The demo ends by itself with a chart and a table. Exit codes: 0 if
every registration succeeded and every user has one account and one charge, 1 if not, 130 after
Ctrl-C. It removes everything it made, except after a fault: then its folder stays, and the output
names the logs in it.
Known limit: all processes share this machine, so the numbers measure them together.
"""

import argparse
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import asyncpg
import httpx
from rich.console import Console
from rich.table import Table

from accounts.stage.chart import chart, drawn
from accounts.stage.judge import Ledgers, Verdict, is_idle, judge
from accounts.stage.looks import Look, look
from accounts.stage.people import People
from inboxd import InboxdError
from inboxd.embedded import Server, free_port
from stage.folder import DemoFolder, demo_folder
from stage.processes import ProcessError, Program, inboxd, service

_CONFIG = Path(__file__).with_name("config.toml")
_LOOK_SECONDS = 0.25
_LOSE_EVERY = 7  # the gateway loses the answer to every seventh charge
# The accounts service works for this share of the registering, then is slow, down and busy.
_WORKING_SHARE, _SLOW_SECONDS, _SLOW_ANSWER_SECONDS, _BUSY_SECONDS = 0.2, 2.0, 3.0, 1.5
_screen = Console(highlight=False, soft_wrap=True)


def main() -> int:
    """Run the demo; returns the exit code."""
    # Take SIGTERM (`kill`, CI) as Ctrl-C; a shell's background job would ignore SIGINT otherwise.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    options = _options()
    try:
        with demo_folder(_report) as folder, _postgresql(folder) as server:
            code: int = anyio.run(_play, options, server, folder.path)
            folder.wanted = code != 0
            return code
    except KeyboardInterrupt:
        _screen.print("Stopped.")
        return 130
    except (ProcessError, InboxdError) as error:
        _wrong([str(error)])
        return 1
    except ExceptionGroup as group:
        expected, others = group.split((ProcessError, InboxdError))
        if others is not None or expected is None:
            raise
        _wrong([str(error) for error in expected.exceptions])
        return 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--users", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=20, help="seconds in which users register")
    parser.add_argument("--outage", type=float, default=10, help="seconds of downtime")
    parser.add_argument("--quick", action="store_true", help="120 users, 9 seconds, outage of 5")
    parser.add_argument("--timeout", type=float, default=60, help="seconds to wait for commands")
    options = parser.parse_args()
    if options.quick:
        options.users, options.seconds, options.outage = 120, 9, 5
    return options


@contextmanager
def _postgresql(folder: DemoFolder) -> Iterator[Server]:
    """Start a server in the folder, for the block."""
    with _step("PostgreSQL started, with its usual durability"):
        server = Server.start(folder.path)
    if server.home != folder.path:  # as root
        folder.others.append(server.home)
    with server:
        yield server


class _Target(NamedTuple):
    """A target whose process starts and stops; its ledger is a file, which stays."""

    program: Program
    url: str

    @classmethod
    def make(cls, folder: Path, name: str) -> "_Target":
        port = free_port()
        log, ledger = folder / f"{name}.log", folder / f"{name}.ledger"
        program = service(
            "accounts.stage.targets:create", log=log, port=port, TARGET_LEDGER=str(ledger)
        )
        return cls(program, f"http://127.0.0.1:{port}")

    async def behave(self, **behaviour: float) -> None:
        """Change how the target answers from now on."""
        async with httpx.AsyncClient(base_url=self.url, trust_env=False) as http:
            (await http.put("/behaviour", json=behaviour)).raise_for_status()

    async def ledger(self) -> dict[str, Any]:
        async with httpx.AsyncClient(base_url=self.url, trust_env=False) as http:
            answer = await http.get("/ledger")
            ledger: dict[str, Any] = answer.json()
            return ledger


async def _play(options: argparse.Namespace, server: Server, folder: Path) -> int:
    accounts, payments = _Target.make(folder, "accounts"), _Target.make(folder, "payments")
    urls = {"ACCOUNTS_URL": accounts.url, "PAYMENTS_URL": payments.url}
    port, dsn = free_port(), server.dsn()
    with _step("database migrated: inboxd's schema, the registration's table"):
        migrate = _inboxd(folder, "migrate", INBOXD_DATABASE__DSN=dsn, **urls)
        await migrate.done()
    registration = service(
        "accounts.registration:create",
        log=folder / "registration.log",
        port=port,
        REGISTRATION_DSN=dsn,
        **urls,
    )
    worker = _inboxd(folder, "run", INBOXD_DATABASE__DSN=dsn, **urls)
    async with AsyncExitStack() as stack:
        with _step("registration, worker and payment gateway started"):
            await stack.enter_async_context(payments.program.running())
            await stack.enter_async_context(registration.running())
            await stack.enter_async_context(worker.running())
            await payments.behave(lose_every=_LOSE_EVERY)
        watching, asking = [await stack.enter_async_context(_connected(server)) for _ in range(2)]
        people, looks = People(port), list[Look]()
        async with anyio.create_task_group() as group:
            with drawn(_screen) as draw:
                begun = time.monotonic()
                group.start_soon(_watch, watching, looks, draw, begun)
                await _live_through(options, people, accounts, stack)
                await _settled(asking, options.timeout)
            group.cancel_scope.cancel()
        looks.append(await look(asking, time.monotonic() - begun))
        ledgers = Ledgers(await accounts.ledger(), await payments.ledger())
        verdict = await judge(asking, people.answers, ledgers, looks)
    return _show(looks, verdict)


async def _live_through(
    options: argparse.Namespace, people: People, accounts: _Target, stack: AsyncExitStack
) -> None:
    """Have people register while the service works, is slow, down, busy, and works again.

    The restarted service runs until `stack` closes.
    """
    async with anyio.create_task_group() as group:
        async with accounts.program.running() as process:
            group.start_soon(people.register, options.users, options.seconds)
            await anyio.sleep(_WORKING_SHARE * options.seconds)
            await accounts.behave(delay=_SLOW_ANSWER_SECONDS)
            await anyio.sleep(_SLOW_SECONDS)
            process.kill()
            # Without this wait the next signal reaps the process, and asyncio misses its exit code.
            await process.wait()
        _screen.print(
            f"          the accounts service was slow, and is now down for {options.outage:g} s"
        )
        await anyio.sleep(options.outage)
        await stack.enter_async_context(accounts.program.running())
        await accounts.behave(status=429)
        _report("the accounts service is back, and answers 429 at first")
        await anyio.sleep(_BUSY_SECONDS)
        await accounts.behave()
        _report("the accounts service works again")


async def _watch(
    connection: Any, looks: list[Look], draw: Callable[[list[Look]], None], begun: float
) -> None:
    while True:
        looks.append(await look(connection, time.monotonic() - begun))
        draw(looks)
        await anyio.sleep(_LOOK_SECONDS)


async def _settled(connection: Any, within: float) -> None:
    with anyio.move_on_after(within):
        while not await is_idle(connection):  # noqa: ASYNC110 - other processes change the database
            await anyio.sleep(_LOOK_SECONDS)


def _inboxd(folder: Path, verb: str, **given: str) -> Program:
    log = folder / f"{verb}.log"
    return inboxd(verb, config=_CONFIG, log=log, port=free_port(), **given)


@asynccontextmanager
async def _connected(server: Server) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(server.dsn(), timeout=10)
    try:
        yield connection
    finally:
        connection.terminate()


def _show(looks: list[Look], verdict: Verdict) -> int:
    _screen.print(chart(looks))
    table = Table(show_header=False, title="The outage", title_justify="left")
    table.add_column(no_wrap=True, min_width=56)
    table.add_column(justify="right", no_wrap=True, min_width=10)
    for name, value in verdict.lines:
        table.add_row(name, value)
    _screen.print(table)
    _wrong(verdict.faults)
    if not verdict.faults:
        _screen.print("Every registration succeeded; every user has one account and one charge.")
    return 1 if verdict.faults else 0


@contextmanager
def _step(what: str) -> Iterator[None]:
    start = time.monotonic()
    yield
    _screen.print(f"{time.monotonic() - start:6.1f} s  {what}", markup=False)


def _report(what: str) -> None:
    _screen.print(f"{'':10}{what}", markup=False)


def _wrong(faults: list[str]) -> None:
    for fault in faults:
        _screen.print(f"WRONG: {fault}", style="bold red", markup=False)


if __name__ == "__main__":
    sys.exit(main())
