"""Each result is sent once, while PostgreSQL is down for a time: every bet is settled correctly.

`make demo-bets` runs it. It starts a PostgreSQL of its own with its usual durability, `inboxd run`
with this folder's plugin, `inboxd receive` with a spool, and a provider that sends each result
once, signed, over HTTP. In the middle PostgreSQL is stopped for five seconds, and the receiver is
restarted once. The demo ends by itself with a table. Exit codes: 0 if every result was answered 2xx
and every bet has the right status, one notification command, and one payment command if it won, 1
if not, 130 after Ctrl-C. It removes everything it made, except after a fault: then its folder
stays, and the output names the logs in it.
Known limit: all processes share this machine, so the numbers measure them together.
"""

import argparse
import signal
import sys
import time
import tomllib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import asyncpg
from anyio.abc import Process
from rich.console import Console
from rich.table import Table

from bets.stage.platform import Verdict, draw_results, is_idle, judge, place
from bets.stage.provider import Provider, slowest
from inboxd import InboxdError
from inboxd.embedded import Server, free_port
from stage.folder import DemoFolder, demo_folder
from stage.processes import ProcessError, Program
from stage.processes import inboxd as program

_CONFIG = Path(__file__).with_name("config.toml")
_LOOK_SECONDS = 0.2
# When PostgreSQL stops, and when the receiver restarts: shares of the time of the sending.
_OUTAGE_AT, _RESTART_AT = 0.25, 0.8
_screen = Console(highlight=False, soft_wrap=True)


def main() -> int:
    """Run the demo; returns the exit code."""
    # Take SIGTERM (`kill`, CI) as Ctrl-C; a shell's background job would ignore SIGINT otherwise.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        options = _options()
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


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--bets", type=int, default=100_000)
    parser.add_argument("--matches", type=int, default=200)
    parser.add_argument("--sending", type=float, default=12, help="seconds of sending")
    parser.add_argument("--outage", type=float, default=5, help="seconds without PostgreSQL")
    parser.add_argument("--quick", action="store_true", help="2,000 bets, 40 matches, 3 seconds")
    parser.add_argument(
        "--timeout", type=float, default=120, help="seconds to wait for the settlement"
    )
    options = parser.parse_args()
    if options.quick:
        options.bets, options.matches, options.sending, options.outage = 2_000, 40, 3, 1
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


async def _play(options: argparse.Namespace, server: Server, folder: Path) -> int:
    results = draw_results(options.matches)
    port = free_port()
    settings = {
        "INBOXD_DATABASE__DSN": server.dsn(),
        "INBOXD_INBOUND__HTTP__PORT": str(port),
        "INBOXD_INBOUND__SPOOL__PATH": str(folder / "spool"),
    }
    worker = _program(folder, "run", INBOXD_INBOUND__HTTP__ENABLED="false", **settings)
    receiver = _program(folder, "receive", "--processes", "1", **settings)
    await _program(folder, "migrate", **settings).done()
    async with _connected(server) as connection:
        with _step(f"{options.bets:,} bets on {options.matches} matches placed"):
            await place(connection, options.bets, options.matches)
    key = tomllib.loads(_CONFIG.read_text())["inbound"]["webhooks"]["results"]["keys"][0]
    provider = Provider(port, key["secret"])
    async with receiver.running() as receiving, worker.running():
        begun = time.monotonic()
        with _step("results sent, each once, while PostgreSQL stopped and the receiver restarted"):
            async with anyio.create_task_group() as group:
                group.start_soon(_disturb, options, server, receiving)
                await anyio.to_thread.run_sync(provider.send, results, options.sending)
        with _step("the last bets settled, notified and paid"):
            async with _connected(server) as connection:
                await _settled(connection, options.timeout)
                verdict = await judge(connection, results)
        seconds = time.monotonic() - begun
    return _show(options, provider, verdict, seconds)


def _program(folder: Path, *arguments: str, **settings: str) -> Program:
    log = folder / f"{arguments[0]}.log"
    return program(*arguments, config=_CONFIG, log=log, port=free_port(), **settings)


async def _disturb(options: argparse.Namespace, server: Server, receiving: Process) -> None:
    await anyio.sleep(_OUTAGE_AT * options.sending)
    await anyio.to_thread.run_sync(_stop_for, server, options.outage)
    _screen.print(f"          PostgreSQL was stopped for {options.outage:g} seconds")
    rest = (_RESTART_AT - _OUTAGE_AT) * options.sending - options.outage
    await anyio.sleep(max(0.0, rest))
    receiving.send_signal(signal.SIGUSR2)
    _screen.print("          the receiver restarts in place")


def _stop_for(server: Server, seconds: float) -> None:
    with server.outage("fast"):
        time.sleep(seconds)


async def _settled(connection: Any, within: float) -> None:
    with anyio.move_on_after(within):
        while not await is_idle(connection):  # noqa: ASYNC110 - other processes change the database
            await anyio.sleep(_LOOK_SECONDS)


@asynccontextmanager
async def _connected(server: Server) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(server.dsn(), timeout=10)
    try:
        yield connection
    finally:
        connection.terminate()


def _show(options: argparse.Namespace, provider: Provider, verdict: Verdict, seconds: float) -> int:
    ledger, numbers = provider.ledger, verdict.numbers
    refused = [sent for sent in ledger if not sent.accepted]
    lines = [
        ("results sent, each once", len(ledger)),
        ("  answered with success", len(ledger) - len(refused)),
        ("  slowest answer", f"{slowest(ledger) * 1000:,.0f} ms"),
        ("results stored, each once", numbers["receipts"]),
        ("  of them more than a second later, from the spool", numbers["late"]),
        ("  longest delay", f"{numbers['latest']:.1f} s"),
        ("bets won", numbers["won"]),
        ("bets lost", numbers["lost"]),
        ("notification commands, one for each bet", numbers["notified"]),
        ("payment commands, one for each won bet", numbers["paid"]),
        ("seconds from the first result to the last payment", f"{seconds:.1f}"),
        ("  of them without PostgreSQL", f"{options.outage:g}"),
    ]
    table = Table(show_header=False, title="The match day", title_justify="left")
    table.add_column(no_wrap=True, min_width=52)
    table.add_column(justify="right", no_wrap=True, min_width=12)
    for name, value in lines:
        table.add_row(name, f"{value:,}" if isinstance(value, int) else str(value))
    _screen.print(table)
    faults = [f"{each.match} was answered {each.status} {each.trouble}" for each in refused]
    faults += verdict.faults
    if len(ledger) != options.matches:
        faults.append(f"{options.matches - len(ledger)} results were not sent")
    _wrong(faults)
    if not faults:
        _screen.print("Every result counted once; every bet was settled correctly.")
    return 1 if faults else 0


@contextmanager
def _step(what: str) -> Iterator[None]:
    start = time.monotonic()
    yield
    _screen.print(f"{time.monotonic() - start:6.1f} s  {what}", markup=False)


def _report(what: str) -> None:
    _screen.print(what, markup=False)


def _wrong(faults: list[str]) -> None:
    for fault in faults:
        _screen.print(f"WRONG: {fault}", style="bold red", markup=False)


if __name__ == "__main__":
    sys.exit(main())
