"""A school signs up, publishes activities and e-mails its students: real processes, then a check.

`make demo` runs it. It starts a PostgreSQL of its own, a mail server on loopback, the school's
service, and inboxd as a process of its own with this folder's plugin. A workflow of five steps sets
up the institution. One student has no mailbox, so some batches of e-mails fail. Then the demo
creates the mailbox and replays the dead letters, and the batches heal. At last students hand in
answers, which are graded without e-mails, so no mail server sets the pace. The screens show all of
it at the address that is printed; on a terminal they stay until a key is pressed, at most for ten
minutes. The demo ends by itself with the trace of one activity. Exit codes: 0 if every student got
exactly the e-mails that were due, every teacher was told once and last, and every answer has one
grade, 1 if not, 130 after Ctrl-C. It removes everything it made, except after a fault: then its
folder stays, and the output names the logs in it.
Known limit: all processes share this machine, so the numbers measure them together.
"""

import argparse
import signal
import sys
import tomllib
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import anyio
import asyncpg
from anyio.abc import Process

from inboxd import InboxdError
from inboxd.embedded import Server, free_port
from school.stage.daemon import Daemon, DaemonError
from school.stage.folder import DemoFolder, demo_folder
from school.stage.judge import (
    count_all,
    count_due,
    count_grades,
    find_faults,
    find_missed,
    is_set_up,
    look,
    measure_answers,
    measure_emails,
)
from school.stage.mailbox import Mailbox, open_mailbox
from school.stage.people import answer, found_school, publish
from school.stage.screen import Screen, lines_of_all, lines_of_answers, lines_of_emails
from school.stage.service import Service, ServiceError
from school.stage.service import running as service_running

_CONFIG = Path(__file__).with_name("config.toml")
_EMAILS_AT_ONCE = tomllib.loads(_CONFIG.read_text())["queues"]["email"]["concurrency"]
_LOOK_SECONDS = 0.2
# How long the screens stay on a terminal at the end.
_STAY_SECONDS = 600
_MISSING = "student7@school.example"
_ANNOUNCED = """
    SELECT id FROM inboxd.events_history
     WHERE type = 'activity.published' AND entity_id = $1::bigint::text
"""


def main() -> int:
    """Run the demo; returns the exit code."""
    # Take SIGTERM (`kill`, CI) as Ctrl-C; a shell's background job would ignore SIGINT otherwise.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    options = _options()
    screen = Screen()
    try:
        with demo_folder(screen.say) as folder, _postgresql(screen, folder) as server:
            code: int = anyio.run(_play, options, screen, server, folder.path)
            folder.wanted = code != 0
            return code
    except KeyboardInterrupt:
        screen.say("Stopped.")
        return 130
    except (DaemonError, ServiceError, InboxdError) as error:
        screen.faults([str(error)])
        return 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--students", type=_positive, default=1000)
    parser.add_argument("--activities", type=_positive, default=20)
    parser.add_argument("--answers", type=_positive, default=10_000)
    parser.add_argument(
        "--quick", action="store_true", help="90 students, 6 activities, 300 answers"
    )
    parser.add_argument(
        "--timeout", type=_positive, default=300, help="seconds to wait for the work"
    )
    options = parser.parse_args()
    if options.quick:
        options.students, options.activities, options.answers = 90, 6, 300
    return options


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


@contextmanager
def _postgresql(screen: Screen, folder: DemoFolder) -> Iterator[Server]:
    """Start a server in the folder, for the block; as safe against crashes as in production."""
    with screen.step("PostgreSQL started, with its usual durability"):
        server = Server.start(folder.path)
    if server.home != folder.path:  # as root
        folder.others.append(server.home)
    with server:
        yield server


class _Stage(NamedTuple):
    """The options, the screen and the servers of a run."""

    options: argparse.Namespace
    screen: Screen
    connection: "asyncpg.Connection[asyncpg.Record]"
    mailbox: Mailbox
    daemon: Daemon
    service: Service


async def _play(options: argparse.Namespace, screen: Screen, server: Server, folder: Path) -> int:
    async with AsyncExitStack() as stack:
        mailbox, address = await stack.enter_async_context(open_mailbox())
        mailbox.unknown = {_MISSING}
        admin_port = free_port()
        daemon = Daemon(
            _CONFIG,
            folder / "inboxd.log",
            free_port(),
            INBOXD_DATABASE__DSN=server.dsn(),
            SCHOOL_SMTP=address,
            # The screens listen on this machine only; each of its users may read them.
            INBOXD_ADMIN__ENABLED="true",
            INBOXD_ADMIN__PORT=str(admin_port),
            INBOXD_ADMIN__LOCAL_ROLE="reader",
        )
        with screen.step("database migrated: inboxd's schema, the school's tables"):
            await daemon.migrate()
        connection = await asyncpg.connect(server.dsn(), timeout=10)
        stack.callback(connection.terminate)
        with screen.step("school signed up; its service listens (POST /activities)"):
            await found_school(connection, options.students)
            running = service_running(server.dsn(), folder / "service.log")
            service = await stack.enter_async_context(running)
        with screen.step("inboxd started"):
            process = await stack.enter_async_context(daemon.running())
        at = f"http://127.0.0.1:{admin_port}/"
        screen.say(f"          its screens, while the demo runs: {at}")
        stage = _Stage(options, screen, connection, mailbox, daemon, service)
        await _work(stage, process)
        code = await _judge(stage)
        await screen.stay(f"The screens stay at {at}", _STAY_SECONDS)
        return code


async def _work(stage: _Stage, process: Process) -> None:
    """Have the daemon process activities, repair the failed batches, and grade answers."""
    options, screen, connection, mailbox = stage[:4]
    with anyio.move_on_after(options.timeout):
        with screen.step(f"{options.students:,} students in 3 courses, set up in five steps"):
            await _until_set_up(connection, process)
        with screen.step(f"{options.activities:,} activities published for 6 classes"):
            await publish(stage.service, connection, options.activities)
        due = await count_due(connection)
        missed = await find_missed(connection, mailbox.unknown)
        with screen.step(f"{due - len(missed):,} of {due:,} e-mails sent"):
            await _watch(stage, process, emails=due)
        screen.say(f"          {_MISSING} has no mailbox: {len(missed)} batches failed,")
        screen.say("          the office was told; the teachers of these batches wait")
        with screen.step("mailbox created, dead letters replayed, batches healed"):
            await _mend(mailbox, stage.daemon)
            await _watch(stage, process, emails=due)
        with screen.step(f"{options.answers:,} answers handed in and graded, without e-mails"):
            await answer(connection, options.answers)
            await _watch(stage, process, answers=options.answers)
    # After the timeout the step is not printed; the checks then name what is missing.
    if process.returncode is not None:
        raise stage.daemon.failure(f"ended with exit code {process.returncode}")


async def _until_set_up(connection: "asyncpg.Connection[asyncpg.Record]", process: Process) -> None:
    while process.returncode is None:
        if await is_set_up(connection):
            return
        await anyio.sleep(_LOOK_SECONDS)


async def _mend(mailbox: Mailbox, daemon: Daemon) -> None:
    """Do what an operator does: repair the cause, then replay the dead letters."""
    mailbox.unknown.clear()
    why = "the student has a mailbox now"
    await daemon.ask("commands", "replay", "--type", "school.send_email", "--reason", why, "--yes")


async def _judge(stage: _Stage) -> int:
    options, screen, connection, mailbox = stage[:4]
    missed = await find_missed(connection, [_MISSING])
    faults = await find_faults(connection, mailbox, missed, options.answers)
    if missed and not faults:
        announced = await connection.fetchval(_ANNOUNCED, missed[-1])
        screen.say(f"\nThe trace of activity {missed[-1]} (inboxd trace event {announced}):\n")
        screen.say(await stage.daemon.ask("trace", "event", str(announced), "--each", "4"))
    emails = await measure_emails(connection, [_MISSING])
    screen.table(
        "E-mails: the mail server sets the pace", lines_of_emails(emails, mailbox, _EMAILS_AT_ONCE)
    )
    screen.table(
        "Answers: inboxd sets the pace", lines_of_answers(await measure_answers(connection))
    )
    screen.table("Total", lines_of_all(await count_all(connection)))
    screen.faults(faults)
    if not faults:
        due = await count_due(connection)
        screen.say(f"Every student got exactly the e-mails that were due: {due:,}, each once;")
        screen.say("every teacher was told once, after the last e-mail of the class;")
        screen.say(f"every answer has one grade: {options.answers:,}.")
    return 1 if faults else 0


async def _watch(stage: _Stage, process: Process, **totals: int) -> None:
    """Show the progress until all work is done or the daemon has ended."""
    with stage.screen.bars(**totals) as bars:
        while process.returncode is None:
            progress = await look(stage.connection)
            if "emails" in totals:
                bars.show(emails=stage.mailbox.delivered.total())
            else:
                bars.show(answers=await count_grades(stage.connection))
            if not progress.open:
                return
            await anyio.sleep(_LOOK_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
