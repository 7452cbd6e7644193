"""A school publishes activities and mails its students: real input, real processes, then a check.

`make demo` runs it: a PostgreSQL of its own, a mail server on loopback, inboxd as a process of its
own with this folder's plugin. It ends by itself: exit code 0 if every student got exactly the
e-mails that were due, 1 if not, 130 after Ctrl-C. Nothing is left behind.
Known limit: everything shares this machine, so the numbers are those of all parts together.
"""

import argparse
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path

import anyio
import asyncpg
from anyio.abc import Process

from inboxd import InboxdError
from inboxd.embedded import Server, free_port
from school.stage.daemon import Daemon, DaemonError
from school.stage.judge import count_due, find_faults, look, measure
from school.stage.mailbox import Mailbox, open_mailbox
from school.stage.people import found_school, publish
from school.stage.screen import Screen

_CONFIG = Path(__file__).with_name("config.toml")
_LOOK_SECONDS = 0.2


def main() -> int:
    """Run the demo; returns the exit code."""
    # A stop by `kill` or by CI is a Ctrl-C too, which a shell's background job ignores otherwise.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    options = _options()
    screen = Screen()
    try:
        with _postgresql(screen) as (server, folder):
            return anyio.run(_play, options, screen, server, folder)
    except KeyboardInterrupt:
        screen.say("Stopped.")
        return 130
    except (DaemonError, InboxdError) as error:
        screen.faults([str(error)])
        return 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--students", type=_positive, default=1000)
    parser.add_argument("--activities", type=_positive, default=20)
    parser.add_argument("--quick", action="store_true", help="90 students, 6 activities")
    parser.add_argument("--timeout", type=_positive, default=300, help="seconds for the work")
    options = parser.parse_args()
    if options.quick:
        options.students, options.activities = 90, 6
    return options


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


@contextmanager
def _postgresql(screen: Screen) -> Iterator[tuple[Server, Path]]:
    """A server in a folder that is gone afterwards; as safe against crashes as in production."""
    with ExitStack() as undo:
        folder = Path(tempfile.mkdtemp(prefix="inboxd-demo-"))
        undo.callback(shutil.rmtree, folder, ignore_errors=True)
        with screen.step("PostgreSQL started, as durable as usual"):
            server = Server.start(folder)
            # For root it may be in another folder.
            undo.callback(shutil.rmtree, server.home, ignore_errors=True)
            undo.enter_context(server)
        yield server, folder


async def _play(options: argparse.Namespace, screen: Screen, server: Server, folder: Path) -> int:
    async with open_mailbox() as (mailbox, address):
        daemon = Daemon(
            _CONFIG,
            folder / "inboxd.log",
            free_port(),
            INBOXD_DATABASE__DSN=server.dsn(),
            SCHOOL_SMTP=address,
        )
        with screen.step("inboxd migrated its schema"):
            await daemon.migrate()
        connection = await asyncpg.connect(server.dsn(), timeout=10)
        try:
            with screen.step(f"school founded: 3 classes, {options.students:,} students"):
                await found_school(connection, options.students)
            return await _work(options, screen, connection, mailbox, daemon)
        finally:
            connection.terminate()


async def _work(
    options: argparse.Namespace,
    screen: Screen,
    connection: "asyncpg.Connection[asyncpg.Record]",
    mailbox: Mailbox,
    daemon: Daemon,
) -> int:
    """Let the daemon work off the activities, and judge what came of it."""
    async with AsyncExitStack() as stack:
        with screen.step("inboxd started"):
            process = await stack.enter_async_context(daemon.running())
        with screen.step(f"{options.activities:,} activities published"):
            await publish(connection, options.activities)
        due = await count_due(connection)
        # The step is not printed when the time is up; the check then tells what is missing.
        with anyio.move_on_after(options.timeout), screen.step(f"{due:,} e-mails due, work done"):
            await _watch(
                screen, connection, mailbox, process, activities=options.activities, due=due
            )
        if process.returncode is not None:
            raise daemon.failure(f"ended with exit code {process.returncode}")
    screen.table(await measure(connection), mailbox)
    faults = await find_faults(connection, mailbox)
    screen.faults(faults)
    if not faults:
        screen.say(f"Every student got exactly the e-mails that were due: {due:,}, each once.")
    return 1 if faults else 0


async def _watch(
    screen: Screen,
    connection: "asyncpg.Connection[asyncpg.Record]",
    mailbox: Mailbox,
    process: Process,
    *,
    activities: int,
    due: int,
) -> None:
    """Show the progress until nothing is left to do, or the daemon is gone."""
    with screen.bars(events=activities, commands=activities + due, emails=due) as bars:
        while process.returncode is None:
            progress = await look(connection)
            bars.show(
                events=progress.events,
                commands=progress.commands,
                emails=mailbox.delivered.total(),
            )
            if not progress.open:
                return
            await anyio.sleep(_LOOK_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
