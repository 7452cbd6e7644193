"""`POST /activities`: a real server process, real HTTP, and the rows in the database afterwards."""

import json
from collections.abc import AsyncIterator
from http.client import HTTPConnection
from pathlib import Path

import anyio.to_thread
import pytest

from inboxd import Connection
from inboxd.store.plugin_migrations import migrate
from school.stage.service import running
from tests.support import Database
from tests.support.rows import settings_of
from tests.support.waiting import patient

pytestmark = pytest.mark.anyio

EXERCISE = {"class_id": 1, "title": "  Exercise 1 "}


class Service:
    """A client of the running service."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def post(self, body: object) -> tuple[int, dict[str, object]]:
        """Returns status and answer; a string body is sent unchanged."""
        text = body if isinstance(body, str) else json.dumps(body)
        return await anyio.to_thread.run_sync(self._post, text)

    def _post(self, body: str) -> tuple[int, dict[str, object]]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=patient())
        try:
            connection.request("POST", "/activities", body)
            answer = connection.getresponse()
            text = answer.read().decode()
            is_json = answer.headers["Content-Type"] == "application/json"
            return answer.status, json.loads(text) if is_json else {"text": text}
        finally:
            connection.close()


@pytest.fixture
async def school(database: Database) -> AsyncIterator[Connection]:
    """A connection to a school with one class."""
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
                 VALUES (1, 1, 1, 'Algebra');
            """
        )
        yield connection


@pytest.fixture
async def service(school: Connection, database: Database, tmp_path: Path) -> AsyncIterator[Service]:
    """The service, started as its operator starts it."""
    async with running(database.dsn, tmp_path / "service.log") as started:
        yield Service(started.port)


async def test_an_activity_and_its_event_are_saved_together_or_not_at_all(
    school: Connection, service: Service
) -> None:
    async def saved() -> tuple[int, int]:
        activities = await school.fetchval("SELECT count(*) FROM school.activities")
        return activities, await school.fetchval("SELECT count(*) FROM inboxd.events")

    status, answer = await service.post(EXERCISE)
    assert status == 201, answer
    assert await saved() == (1, 1)
    [activity] = await school.fetch("SELECT id, class_id, title FROM school.activities")
    assert tuple(activity.values()) == (answer["activity_id"], 1, "Exercise 1")
    [event] = await school.fetch("SELECT * FROM inboxd.events")
    assert (event["type"], str(event["event_id"])) == ("activity.published", answer["event_id"])
    assert json.loads(event["payload"]) == {"activity_id": answer["activity_id"]}

    # An invalid activity is answered with the wrong fields, and saves nothing.
    for wrong, field in (
        ({"class_id": 1, "title": " "}, "title"),
        ({"class_id": "one", "title": "x"}, "class_id"),
        ({"title": "x"}, "class_id"),
        ({"class_id": 2**64, "title": "x"}, "class_id"),
        ({"class_id": 1, "title": "a\0b"}, "title"),
    ):
        status, answer = await service.post(wrong)
        assert (status, field in str(answer["fields"])) == (422, True), answer
    assert (await service.post("{"))[0] == 422
    assert (await service.post({**EXERCISE, "title": "x" * 100_000}))[0] == 413
    assert await service.post({**EXERCISE, "class_id": 99}) == (
        404,
        {"error": "there is no class 99"},
    )
    assert await saved() == (1, 1)

    # When the event cannot be written, the activity is not saved either.
    await school.execute(
        """
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE 'no events today'; END $$;
        CREATE TRIGGER refuse BEFORE INSERT ON inboxd.events
           FOR EACH ROW EXECUTE FUNCTION refuse();
        """
    )
    assert (await service.post(EXERCISE))[0] == 500
    assert await saved() == (1, 1)
