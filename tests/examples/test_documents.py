"""Documents become PDFs: a worker kills slow conversions and stops cancelled packings."""

import json
from pathlib import Path

import pytest

from inboxd import operations
from inboxd.settings import Database as Settings
from inboxd.store.operator_sessions import open_session
from inboxd.store.plugin_migrations import migrate
from tests.support import Database, StartWorker, eventually
from tests.support.rows import settings_of

pytestmark = pytest.mark.anyio

SHORT = "<h1>Offer</h1><p>One lamp, 12 EUR.</p>"
# Minutes of work: each cell is measured, and each row may need a page of its own.
ENDLESS = f"<table>{'<tr><td>lamp</td><td>12 EUR</td></tr>' * 20_000}</table>"


async def test_documents_are_converted_killed_and_packed(
    database: Database, start_worker: StartWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "pdfs"
    monkeypatch.setenv("DOCUMENTS_FOLDER", str(folder))
    await migrate(settings_of(database), ["documents"])
    worker = await start_worker(
        {
            "worker": {"plugins": ["documents"], "heartbeat_interval": "300ms"},
            "types": {"documents.convert": {"timeout": "8s", "retry": {"attempts": 1}}},
        }
    )

    async def state(document: int) -> str:
        found = "select state from office.documents where id = $1"
        return str(await database.fetchval(found, document))

    # A conversion that takes too long: its process is killed, and the document's state says so.
    endless = await _submit(database, ENDLESS)
    pid = await eventually(lambda: _process_of(worker.process.pid))
    short = await _submit(database, SHORT)

    async def is_converted() -> bool:
        return await state(short) == "converted"

    await eventually(is_converted)
    assert await state(endless) == "submitted", "the short document did not wait for it"

    async def is_given_up() -> bool:
        return await state(endless) == "failed"

    await eventually(is_given_up)
    assert pid not in _children(worker.process.pid)
    errors = await database.fetchval("select errors from inboxd.commands where status = 'failed'")
    assert "HandlerTimeout: ran longer than its timeout of 8 s" in errors
    [(path, size)] = await database.fetch("select path, bytes from office.pdfs")
    [(name, pdf)] = _files_of(folder)
    assert (str(folder / name), pdf[:4], len(pdf)) == (path, b"%PDF", size)

    # A long calculation: its progress is visible, then it is cancelled and writes nothing.
    await _request(database, archive=1, rounds=10**9)

    async def has_come() -> float:
        found = "select progress from inboxd.commands where type = 'documents.pack'"
        return float(json.loads(await database.fetchval(found) or "{}").get("done", 0))

    await eventually(has_come)
    async with open_session(Settings.model_validate({"dsn": database.dsn})) as session:
        running = "select id from inboxd.commands where status = 'running'"
        await operations.act(
            session, "commands", "cancel", [await database.fetchval(running)], actor="test"
        )
    await eventually(
        lambda: database.fetchval(
            "select 1 from inboxd.commands_history"
            " where type = 'documents.pack' and status = 'cancelled'"
        )
    )
    await _request(database, archive=2, rounds=10)
    packed = "select array_agg(row(archive_id, document_id, box)::text) from office.packings"
    assert await eventually(lambda: database.fetchval(packed)) == [f"(2,{short},1)"]


def _files_of(folder: Path) -> list[tuple[str, bytes]]:
    return [(file.name, file.read_bytes()) for file in folder.iterdir()]


async def _submit(database: Database, html: str) -> int:
    """Write the document and its event; returns the document's number."""
    number: int = await database.fetchval(
        """
        with document as (insert into office.documents (html) values ($1) returning id),
             event as (insert into inboxd.events (type, payload)
                       select 'document.submitted', jsonb_build_object('document_id', id)
                         from document)
        select id from document
        """,
        html,
    )
    return number


async def _request(database: Database, archive: int, rounds: int) -> None:
    payload = {"archive_id": archive, "capacity": 1_000_000, "rounds": rounds}
    await database.execute(
        "insert into inboxd.events (type, payload) values ('archive.requested', $1::text::jsonb)",
        json.dumps(payload),
    )


async def _process_of(worker: int) -> int | None:
    """The converting process, or None while none runs."""
    return next(iter(_children(worker)), None)


def _children(worker: int) -> list[int]:
    listed = Path(f"/proc/{worker}/task").glob("*/children")
    return [int(pid) for children in listed for pid in children.read_text().split()]
