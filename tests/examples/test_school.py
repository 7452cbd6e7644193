"""The example plugin, tested as its author would, and the whole demo as its reader runs it.

Handler tests need no daemon; where a handler asks the database, it asks a real one.
"""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from importlib.resources import files
from pathlib import Path

import pytest

from inboxd import Connection
from inboxd.model.outcome import Dead, Retrying, Succeeded
from inboxd.testing import run_command, run_event
from school.plugin import handlers
from school.stage.mailbox import Mailbox, open_mailbox
from tests.support import Database

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
DEMO = [sys.executable, str(ROOT / "examples/school/demo.py")]
EMAIL = {"activity_id": 1, "student_id": 1, "address": "ada@school.example", "subject": "New"}


@pytest.fixture
async def school(database: Database) -> AsyncIterator[Connection]:
    """A connection to a school: one class, two students, one activity."""
    async with database.connect() as connection:
        await connection.execute(files("school").joinpath("schema.sql").read_text())
        await connection.execute(
            """
            INSERT INTO school.institutions (name) VALUES ('Example School');
            INSERT INTO school.teachers (institution_id, name) VALUES (1, 'Grace');
            INSERT INTO school.classes (institution_id, teacher_id, name)
                 VALUES (1, 1, '1a'), (1, 1, '1b');
            INSERT INTO school.students (institution_id, address)
                 VALUES (1, 'ada@school.example'), (1, 'bob@school.example'),
                        (1, 'eve@school.example');
            INSERT INTO school.enrolments VALUES (1, 1), (1, 2), (2, 3);
            INSERT INTO school.activities (class_id, title) VALUES (1, 'Exercise 1');
            """
        )
        yield connection


@pytest.fixture
async def mailbox(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Mailbox]:
    """A mail server that the plugin sends to."""
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


async def test_every_student_of_the_class_and_nobody_else_is_sent_an_email(
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


async def test_an_institution_is_set_up_in_five_steps() -> None:
    payload = {"institution_id": 1, "students": 90}
    result = await run_event(handlers, "institution.created", payload)

    [workflow] = result.workflows
    names = ["basic data", "users", "classes", "enrolments", "attendances"]
    assert list(workflow.steps) == names
    assert [list(step.after) for step in workflow.steps.values()] == [
        [],
        *([name] for name in names[:-1]),
    ]


async def test_a_step_reads_what_an_earlier_one_returned(school: Connection) -> None:
    result = await run_command(
        handlers,
        "school.seed_classes",
        {"institution_id": 1},
        connection=school,
        results={"basic data": [1]},
    )

    assert isinstance(result.outcome, Succeeded), result.error
    assert await school.fetchval("SELECT count(*) FROM school.classes WHERE name = 'Class 1'") == 1


async def test_an_email_is_sent_and_noted(school: Connection, mailbox: Mailbox) -> None:
    result = await run_command(handlers, "school.send_email", EMAIL, connection=school)

    assert isinstance(result.outcome, Succeeded), result.error
    assert mailbox.delivered == {("ada@school.example", "New"): 1}
    assert await school.fetchval("SELECT count(*) FROM school.deliveries") == 1


@pytest.mark.parametrize(
    ("answer", "outcome"), [("451 4.3.0 Busy", Retrying), ("550 5.1.1 No such user", Dead)]
)
async def test_the_mail_servers_answer_decides_whether_to_try_again(
    answer: str, outcome: type, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailbox, "receive", lambda _content: answer)

    result = await run_command(handlers, "school.send_email", EMAIL)

    assert isinstance(result.outcome, outcome)


async def test_a_mail_server_that_is_down_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, free_tcp_port: int
) -> None:
    monkeypatch.setenv("SCHOOL_SMTP", f"127.0.0.1:{free_tcp_port}")

    result = await run_command(handlers, "school.send_email", EMAIL)

    assert isinstance(result.outcome, Retrying)


def test_the_mail_server_takes_a_message_once_and_puts_the_same_ones_off_in_every_run() -> None:
    first, second = Mailbox(), Mailbox()
    messages = [
        f"Message-ID: <{n}>\r\nTo: s{n}@school.example\r\nSubject: New\r\n\r\n".encode()
        for n in range(200)
    ]

    answers = [first.receive(message) for message in messages]

    assert answers == [second.receive(message) for message in messages]
    assert 0 < first.put_off < 20
    for message in messages:
        first.receive(message)
    assert first.delivered.total() == 200
    assert set(first.delivered.values()) == {1}
    assert first.repeated == 200 - first.put_off


@pytest.mark.timeout(100)
def test_the_demo_ends_by_itself_with_a_table_and_leaves_nothing(tmp_path: Path) -> None:
    done = _run_demo(tmp_path, "--quick", "--timeout", "60")

    assert done.returncode == 0, done.stdout + done.stderr
    table = dict(_cells(line) for line in done.stdout.splitlines() if line.startswith("│"))
    assert table["events handled"] == "7"
    # Five steps; 6 announcements, 180 e-mails, two of them replayed; 6 teachers, twice the office.
    assert table["commands succeeded"] == "199"
    assert table["e-mails received"] == "180"
    assert table["refused for good"] == "2"
    assert table["failures (dead letters)"] == "0"
    assert table["retries"] == table["put off by the mail server"] != "0"
    assert "Every student got exactly the e-mails that were due: 180" in done.stdout
    for part in ("tell_teacher  succeeded", "tell_office  succeeded", "replayed as command"):
        assert part in done.stdout, "the story"
    assert "\x1b" not in done.stdout, "no terminal, no animation"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.timeout(60)
def test_the_demo_cleans_up_when_it_is_stopped(tmp_path: Path) -> None:
    with _start_demo(tmp_path) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "activities published" in line:  # in the middle of the work, then
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
