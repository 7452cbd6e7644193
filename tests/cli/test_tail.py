"""`inboxd tail`: prints each change once, in order, but no row from before its start."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio.to_thread
import pytest

from inboxd.operations import read_filter
from inboxd.operations.tail import Tail
from inboxd.store.operator_sessions import open_session
from inboxd.store.session import Session
from tests.support import Database, eventually
from tests.support.rows import settings_of
from tests.support.waiting import patient

pytestmark = pytest.mark.anyio


@pytest.fixture
async def session(database: Database) -> AsyncIterator[Session]:
    async with open_session(settings_of(database)) as session:
        yield session


async def _told(looks: Tail, session: Session) -> list[tuple[str, str, str]]:
    found, _ = await looks.look(session)
    return [(each.kind, each.row["type"], each.what) for each in found]


async def _fail(database: Database, type_: str, attempts: int, status: str) -> None:
    """Let an attempt fail, as in a worker: the error has the time of the update."""
    await database.execute(
        "update inboxd.commands set status = $2, attempts = $3, updated_at = now(), errors ="
        " jsonb_build_array(jsonb_build_object('at', now(), 'error', 'ValueError: no'))"
        " where type = $1",
        type_,
        status,
        attempts,
    )


async def test_each_change_is_printed_once(database: Database, session: Session) -> None:
    await database.execute("insert into inboxd.events (type) values ('was.there')")
    looks = Tail(read_filter({}))
    assert await _told(looks, session) == [], "earlier rows are not printed"
    await database.execute("insert into inboxd.events (type) values ('a.b')")
    await database.execute("insert into inboxd.commands (queue, type) values ('q', 'c.d')")
    written = [("event", "a.b", "written"), ("command", "c.d", "written")]
    assert await _told(looks, session) == written
    assert await _told(looks, session) == []
    await _fail(database, "c.d", 1, "pending")
    assert await _told(looks, session) == [("command", "c.d", "tried again")]
    assert await _told(looks, session) == []
    await _fail(database, "c.d", 2, "failed")
    assert await _told(looks, session) == [("command", "c.d", "failed")]


async def test_filter_omits_other_rows(database: Database, session: Session) -> None:
    looks = Tail(read_filter({"type": "a.b", "payload": "n=1"}), ["events"])
    await looks.look(session)
    await database.execute(
        """insert into inboxd.events (type, payload)
           values ('a.b', '{"n": 1}'), ('a.b', '{"n": 2}'), ('x.y', '{"n": 1}')"""
    )
    await database.execute("insert into inboxd.commands (queue, type) values ('q', 'a.b')")
    found, _ = await looks.look(session)
    assert [each.row["type"] for each in found] == ["a.b"]


@pytest.fixture
def tailing(database: Database, tmp_path: Path) -> Iterator[tuple["subprocess.Popen[bytes]", Path]]:
    """Start the command; returns its process and the file of its output."""
    output = tmp_path / "output"
    with output.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "inboxd", "tail", "--json", "--interval", "0.2"],
            env={**os.environ, "INBOXD_DATABASE__DSN": database.dsn},
            stdout=file,
        )
    yield process, output
    process.kill()
    process.wait()


async def test_tail_continues_until_interrupted(
    database: Database, tailing: tuple["subprocess.Popen[bytes]", Path]
) -> None:
    process, output = tailing

    async def has_told() -> bool:
        assert process.poll() is None
        # Insert repeatedly, because rows from before its first read are not printed.
        await database.execute("insert into inboxd.events (type) values ('a.b')")
        return output.read_text().count("\n") > 1

    await eventually(has_told)
    line = json.loads(output.read_text().splitlines()[0])
    assert (line["kind"], line["what"], line["type"]) == ("event", "written", "a.b")
    process.send_signal(signal.SIGINT)
    assert await anyio.to_thread.run_sync(process.wait, patient(30)) == 130
