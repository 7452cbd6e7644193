"""The handlers by themselves, without PostgreSQL: `pip install pytest`, then `pytest tests`."""

import smtplib
from unittest.mock import AsyncMock

import pytest

from inboxd import Connection, Reject
from inboxd.testing import run_command, run_event
from school.mail import Mail
from school.plugin import handlers

pytestmark = pytest.mark.anyio

EMAIL = {"activity_id": 1, "student_id": 2, "address": "ada@school.example", "subject": "New"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_an_institution_is_set_up_in_five_steps() -> None:
    payload = {"institution_id": 1, "students": 90}
    result = await run_event(handlers, "institution.created", payload)

    [workflow] = result.workflows
    names = ["basic data", "users", "classes", "enrolments", "attendances"]
    assert list(workflow.steps) == names
    waits = [list(step.after) for step in workflow.steps.values()]
    assert waits == [[], *([name] for name in names[:-1])]


async def test_each_student_gets_an_email_and_the_teacher_is_told_last() -> None:
    connection = AsyncMock(spec=Connection)
    connection.fetch.return_value = [
        {"id": 2, "address": "ada@school.example", "title": "Exercise 1"},
        {"id": 3, "address": "bob@school.example", "title": "Exercise 1"},
    ]
    result = await run_command(
        handlers, "school.announce_activity", {"activity_id": 1}, connection=connection
    )

    [batch] = result.batches
    assert [sent.payload["student_id"] for sent in batch.commands] == [2, 3]
    assert [sent.type for sent in batch.then] == ["school.tell_teacher"]
    assert [sent.type for sent in batch.otherwise] == ["school.tell_office"]


async def test_an_email_is_sent_then_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Mail] = []
    monkeypatch.setattr("school.plugin.deliver", sent.append)
    connection = AsyncMock(spec=Connection)

    result = await run_command(handlers, "school.send_email", EMAIL, connection=connection)

    assert result.error is None
    assert [(mail.to, mail.subject) for mail in sent] == [("ada@school.example", "New")]
    connection.execute.assert_awaited_once()


@pytest.mark.parametrize(
    ("trouble", "is_tried_again"),
    [(smtplib.SMTPServerDisconnected("gone"), True), (Reject("no such user"), False)],
)
async def test_a_failed_email_is_not_written_down(
    trouble: Exception, is_tried_again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_mail: object) -> None:
        raise trouble

    monkeypatch.setattr("school.plugin.deliver", fail)
    connection = AsyncMock(spec=Connection)

    result = await run_command(handlers, "school.send_email", EMAIL, connection=connection)

    assert result.error is trouble
    assert hasattr(result.outcome, "delay") == is_tried_again
    connection.execute.assert_not_awaited()
