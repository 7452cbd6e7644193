"""The example plugin, tested as its author would test it, and the demo as a reader runs it.

Tests of handlers need no daemon; handlers that use the database get a real one.
"""

import json
import os
import pty
import re
import signal
import smtplib
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from inboxd import Connection, Reject
from inboxd.store.plugin_migrations import migrate
from inboxd.testing import Dead, Retrying, SentCommand, Succeeded, run_command, run_event
from school.plugin import handlers
from school.stage.mailbox import Mailbox, open_mailbox
from tests.support import Database
from tests.support.rows import settings_of

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
DEMO = [sys.executable, str(ROOT / "examples/school/demo.py")]
EMAIL = {"activity_id": 1, "student_id": 1, "address": "ada@school.example", "subject": "New"}


@pytest.fixture
async def school(database: Database) -> AsyncIterator[Connection]:
    """A connection to a school: one class, two students, one activity."""
    await migrate(settings_of(database), ["school"])
    async with database.connect() as connection:
        await connection.execute(
            """
            INSERT INTO school.institutions (name) VALUES ('Example School');
            INSERT INTO school.campuses (institution_id, name) VALUES (1, 'Campus');
            INSERT INTO school.courses (campus_id, name) VALUES (1, 'Computing');
            INSERT INTO school.disciplines (institution_id, name) VALUES (1, 'Algebra');
            INSERT INTO school.teachers (institution_id, name) VALUES (1, 'Grace');
            INSERT INTO school.classes (course_id, discipline_id, teacher_id, name)
                 VALUES (1, 1, 1, '1a'), (1, 1, 1, '1b');
            INSERT INTO school.students (course_id, term, address)
                 VALUES (1, 1, 'ada@school.example'), (1, 1, 'bob@school.example'),
                        (1, 1, 'eve@school.example');
            INSERT INTO school.enrolments VALUES (1, 1), (1, 2), (2, 3);
            INSERT INTO school.activities (class_id, title) VALUES (1, 'Exercise 1');
            """
        )
        yield connection


@pytest.fixture
async def mailbox(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Mailbox]:
    """The mail server that the plugin sends to."""
    async with open_mailbox() as (box, address):
        monkeypatch.setenv("SCHOOL_SMTP", address)
        yield box


async def test_an_activity_is_announced_by_one_command() -> None:
    result = await run_event(handlers, "activity.published", {"activity_id": 7})

    assert isinstance(result.outcome, Succeeded)
    [command] = result.commands
    assert (command.type, command.payload) == ("school.announce_activity", {"activity_id": 7})


async def test_a_payload_without_its_activity_is_a_dead_letter_that_names_the_field() -> None:
    result = await run_event(handlers, "activity.published", {"activity": 7})

    assert isinstance(result.outcome, Dead)
    assert "activity_id" in str(result.error)


async def test_every_student_of_the_class_and_no_other_gets_an_email(
    school: Connection,
) -> None:
    result = await run_command(
        handlers, "school.announce_activity", {"activity_id": 1}, connection=school
    )

    assert isinstance(result.outcome, Succeeded)
    [batch] = result.batches
    assert {(sent.type, sent.queue) for sent in batch.commands} == {("school.send_email", "email")}
    addresses = {sent.payload["address"] for sent in batch.commands}
    assert addresses == {"ada@school.example", "bob@school.example"}
    assert await school.fetchval("SELECT count(*) FROM school.notifications") == 2


async def test_the_teacher_is_told_after_all_emails_and_the_office_if_one_fails(
    school: Connection,
) -> None:
    result = await run_command(
        handlers, "school.announce_activity", {"activity_id": 1}, connection=school
    )

    [batch] = result.batches
    assert [sent.type for sent in batch.then] == ["school.tell_teacher"]
    assert [sent.type for sent in batch.otherwise] == ["school.tell_office"]


async def test_five_steps_set_an_institution_up(database: Database) -> None:
    """The steps run in the workflow's order, each with the results of the steps before it."""
    await migrate(settings_of(database), ["school"])
    async with database.connect() as school:
        await school.execute("INSERT INTO school.institutions (name) VALUES ('Example School')")
        result = await run_event(
            handlers, "institution.created", {"institution_id": 1, "students": 90}
        )
        [workflow] = result.workflows
        names = ["basic data", "users", "classes", "enrolments", "attendances"]
        assert list(workflow.steps) == names
        results: dict[str, Any] = {}
        for before, (name, step) in zip([None, *names], workflow.steps.items(), strict=False):
            assert list(step.after) == ([before] if before else [])
            assert isinstance(step.what, SentCommand)
            done = await run_command(
                handlers, step.what.type, step.what.payload, connection=school, results=results
            )
            assert isinstance(done.outcome, Succeeded), done.error
            results[name] = json.loads(done.outcome.result or "null")

        async def count(what: str) -> int:
            counted: int = await school.fetchval(f"SELECT count(*) FROM {what}")
            return counted

        tables = ["campuses", "courses", "disciplines", "curricula", "teachers", "students"]
        counts = [await count(f"school.{table}") for table in tables]
        assert counts == [2, 3, 11, 14, 6, 90]
        first = "course_id = (SELECT id FROM school.courses WHERE name = 'Computing')"
        assert await count("school.classes") == await count(f"school.classes WHERE {first}") == 6
        assert await count("(SELECT DISTINCT teacher_id FROM school.classes) t") == 6
        # The course has 30 students, 10 in each term; a term has two classes.
        assert await count(f"school.students WHERE {first}") == 30
        assert await count("school.enrolments") == 60
        assert (
            await count(
                "(SELECT class_id FROM school.enrolments GROUP BY 1 HAVING count(*) = 10) c"
            )
            == 6
        )
        lessons, listed = await count("school.lessons"), await count("school.attendances")
        assert (lessons, listed) == (24, 240)
        assert 0 < await count("school.attendances WHERE present") < listed
        assert await count("school.lessons WHERE held_on > current_date") == 0


async def test_telling_the_teacher_emits_an_event_that_marks_the_activity(
    school: Connection,
) -> None:
    result = await run_command(
        handlers, "school.tell_teacher", {"activity_id": 1}, connection=school
    )
    [event] = result.events
    assert (event.type, event.payload) == ("activity.delivered", {"activity_id": 1})

    noted = await run_event(handlers, event.type, event.payload, connection=school)

    assert isinstance(noted.outcome, Succeeded), noted.error
    marked = "SELECT reached_at FROM school.activities WHERE id = 1"
    assert await school.fetchval(marked) is not None


async def test_an_answer_is_graded_by_a_command(school: Connection) -> None:
    answer = {"activity_id": 1, "student_id": 1, "answer": 0, "text": "because of that"}
    result = await run_event(handlers, "answer.given", answer)
    [command] = result.commands

    done = await run_command(handlers, command.type, command.payload, connection=school)

    assert isinstance(done.outcome, Succeeded), done.error
    assert await school.fetchval("SELECT points FROM school.grades WHERE student_id = 1") == 3


async def test_an_email_is_sent_and_written_down(school: Connection, mailbox: Mailbox) -> None:
    result = await run_command(handlers, "school.send_email", EMAIL, connection=school)

    assert isinstance(result.outcome, Succeeded), result.error
    assert mailbox.delivered == {("ada@school.example", "New"): 1}
    assert await school.fetchval("SELECT count(*) FROM school.deliveries") == 1


@pytest.mark.parametrize(
    ("answer", "outcome", "error"),
    [
        ("451 4.3.0 Busy", Retrying, smtplib.SMTPDataError),
        ("550 5.1.1 No such user", Dead, Reject),
    ],
)
async def test_the_mail_servers_answer_decides_about_a_retry(
    answer: str,
    outcome: type,
    error: type,
    school: Connection,
    mailbox: Mailbox,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mailbox, "receive", lambda _content: answer)

    result = await run_command(handlers, "school.send_email", EMAIL, connection=school)

    assert isinstance(result.outcome, outcome)
    assert isinstance(result.error, error)
    assert answer[:3] in str(result.error)
    assert await school.fetchval("SELECT count(*) FROM school.deliveries") == 0


async def test_an_email_is_retried_while_the_mail_server_is_down(
    monkeypatch: pytest.MonkeyPatch, free_tcp_port: int
) -> None:
    monkeypatch.setenv("SCHOOL_SMTP", f"127.0.0.1:{free_tcp_port}")

    result = await run_command(handlers, "school.send_email", EMAIL)

    assert isinstance(result.outcome, Retrying)
    assert isinstance(result.error, ConnectionRefusedError)


def test_the_mail_server_takes_a_message_once_and_defers_the_same_ones_in_every_run() -> None:
    first, second = Mailbox(), Mailbox()
    messages = [
        f"Message-ID: <{n}>\r\nTo: s{n}@school.example\r\nSubject: New\r\n\r\n".encode()
        for n in range(200)
    ]

    answers = [first.receive(message) for message in messages]

    assert answers == [second.receive(message) for message in messages]
    assert 0 < first.deferred < 20
    for message in messages:
        first.receive(message)
    assert first.delivered.total() == 200
    assert set(first.delivered.values()) == {1}
    assert first.repeated == 200 - first.deferred


@pytest.mark.timeout(300)
def test_the_demo_ends_by_itself_with_a_table_and_leaves_no_files(tmp_path: Path) -> None:
    done = _run_demo(tmp_path, "--quick", "--timeout", "240")

    assert done.returncode == 0, done.stdout + done.stderr
    table = dict(_cells(line) for line in done.stdout.splitlines() if line.startswith("│"))
    # The institution, 6 activities published and delivered, 300 answers.
    assert table["events handled"] == "313"
    # 5 steps; 6 announcements; 60 e-mails, two of them replayed; 6 times the teacher, twice the
    # office.
    assert table["commands succeeded"] == "379"
    assert table["e-mails received by the mail server"] == "60"
    assert table["refused for good, then replayed"] == "2"
    assert table["dead letters left"] == "0"
    assert "at a time" in next(what for what in table if what.startswith("at most: "))
    assert float(table["rows settled per second"].replace(",", "")) > 0
    assert table["retries"] == table["deferred by the server, then retried"] != "0"
    assert "Every student got exactly the e-mails that were due: 60" in done.stdout
    assert "every answer has one grade: 300" in done.stdout
    for part in ("tell_teacher  succeeded", "tell_office  succeeded", "replayed as command"):
        assert part in done.stdout, "the trace has no such line"
    assert "\x1b" not in done.stdout, "without a terminal there is no animation"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.timeout(300)
def test_on_a_terminal_the_screens_stay_until_a_key_is_pressed(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*DEMO, "--quick", "--timeout", "240"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TMPDIR": str(tmp_path), "TERM": "dumb"},
    ) as process:
        os.close(theirs)
        shown = _shown_until(ours, "until you press a key.")
        (at,) = re.findall(r"The screens stay at (http://\S+)", shown)
        overview = httpx.get(at)
        announced = httpx.get(f"{at}events", params={"type": "activity.published"})
        os.write(ours, b" ")
        rest = _shown_until(ours, None)
    os.close(ours)

    assert process.returncode == 0, shown + rest
    assert (overview.status_code, announced.status_code) == (200, 200)
    assert len(re.findall(r'href="/events/\d+"', announced.text)) >= 6
    assert list(tmp_path.iterdir()) == []


def _shown_until(terminal: int, text: str | None) -> str:
    """The output of a program on its terminal up to `text`, or up to its end."""
    shown = ""
    while text is None or text not in shown:
        try:
            part = os.read(terminal, 4096)
        except OSError:  # on Linux this means that the other end is closed
            break
        if not part:
            break
        shown += part.decode(errors="replace")
    return shown


@pytest.mark.long
@pytest.mark.timeout(60)
def test_the_demo_cleans_up_when_it_is_stopped(tmp_path: Path) -> None:
    with _start_demo(tmp_path) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "activities published" in line:  # while the worker is busy
                break
        process.send_signal(signal.SIGTERM)
        rest, errors = process.communicate()

    assert (process.returncode, errors) == (130, "")
    assert "Stopped." in rest
    assert list(tmp_path.iterdir()) == []


def _run_demo(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    with _start_demo(folder, *options) as process:
        output, errors = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def _start_demo(folder: Path, *options: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*DEMO, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(folder)},
    )


def _cells(line: str) -> tuple[str, str]:
    name, value = (cell.strip() for cell in line.strip("│").split("│"))
    return name, value
