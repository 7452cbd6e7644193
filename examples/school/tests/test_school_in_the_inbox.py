"""The school on a real database.

To run it: `pip install 'inboxd[embedded]' pytest`, then `pytest tests`.
"""

import smtplib

import pytest

from inboxd import Handlers, Reject
from inboxd.testing import TestInbox
from school.mail import Mail
from school.plugin import handlers


@pytest.fixture
def inboxd_handlers() -> Handlers:
    """Load this plugin alone, whatever else is installed."""
    return handlers


@pytest.fixture
def school(inbox: TestInbox) -> TestInbox:
    """Two classes, three students, one activity; the plugin's migrations created the tables."""
    inbox.execute(
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
    return inbox


class Post:
    """A mail server; each test sets its answers."""

    def __init__(self) -> None:
        self.delivered: list[str] = []
        self.troubles: dict[str, Exception] = {}

    def deliver(self, mail: Mail) -> None:
        """Accept a mail, or raise the error that is set for its address."""
        if mail.to in self.troubles:
            raise self.troubles[mail.to]
        self.delivered.append(mail.to)


@pytest.fixture
def post(monkeypatch: pytest.MonkeyPatch) -> Post:
    """Replaces `deliver`: handlers run in this process, so the tests can replace what they call."""
    post = Post()
    monkeypatch.setattr("school.plugin.deliver", post.deliver)
    return post


def test_the_class_gets_its_emails_and_the_teacher_is_told_last(
    school: TestInbox, post: Post
) -> None:
    school.emit("activity.published", {"activity_id": 1})
    school.drain()

    assert sorted(post.delivered) == ["ada@school.example", "bob@school.example"]
    school.assert_sent("school.tell_teacher", status="succeeded", count=1)
    assert school.commands("school.tell_office", status="succeeded") == []
    school.assert_emitted("activity.delivered", {"activity_id": 1}, count=1)
    assert school.fetchval("SELECT reached_at FROM school.activities") is not None


def test_an_email_is_tried_again_until_it_is_delivered(school: TestInbox, post: Post) -> None:
    post.troubles["bob@school.example"] = smtplib.SMTPServerDisconnected("gone")
    school.emit("activity.published", {"activity_id": 1})

    drained = school.drain(check=False)
    assert [row.payload["address"] for row in drained.retrying] == ["bob@school.example"]
    school.refute_emitted("activity.delivered")

    post.troubles.clear()
    school.travel("1m")
    school.drain()
    assert sorted(post.delivered) == ["ada@school.example", "bob@school.example"]
    school.assert_emitted("activity.delivered", count=1)


def test_the_office_is_told_of_an_email_that_cannot_be_delivered(
    school: TestInbox, post: Post
) -> None:
    post.troubles["bob@school.example"] = Reject("no such user")
    school.emit("activity.published", {"activity_id": 1})

    [dead] = school.drain(check=False).dead

    assert dead.payload["address"] == "bob@school.example"
    school.assert_sent("school.tell_office", status="succeeded", count=1)
    school.refute_emitted("activity.delivered")


def test_five_steps_set_an_institution_up(inbox: TestInbox) -> None:
    inbox.execute("INSERT INTO school.institutions (name) VALUES ('Example School')")
    inbox.emit("institution.created", {"institution_id": 1, "students": 90})
    inbox.drain()

    tables = ["campuses", "courses", "disciplines", "curricula", "teachers", "students"]
    counts = [inbox.fetchval(f"SELECT count(*) FROM school.{table}") for table in tables]
    assert counts == [2, 3, 11, 14, 6, 90]
    assert inbox.fetchval("SELECT count(*) FROM school.enrolments") == 60


def test_an_answer_is_graded(school: TestInbox) -> None:
    answer = {"activity_id": 1, "student_id": 1, "answer": 0, "text": "because of that"}
    school.emit("answer.given", answer)
    school.drain()
    assert school.fetchval("SELECT points FROM school.grades WHERE student_id = 1") == 3
