"""Documents become PDFs, on a real database: `pip install 'inboxd[embedded]' pytest`."""

from pathlib import Path

import pytest

from documents.plugin import handlers
from inboxd import Handlers
from inboxd.testing import TestInbox


@pytest.fixture
def inboxd_handlers() -> Handlers:
    """Only these, whatever else is installed."""
    return handlers


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where PDFs go."""
    monkeypatch.setenv("DOCUMENTS_FOLDER", str(tmp_path))
    return tmp_path


def submit(office: TestInbox, html: str) -> int:
    """A document and its event, in one transaction; returns its number."""
    number = office.fetchval(
        """
        WITH document AS (INSERT INTO office.documents (html) VALUES ($1) RETURNING id),
             event AS (INSERT INTO inboxd.events (type, payload)
                       SELECT 'document.submitted', jsonb_build_object('document_id', id)
                         FROM document)
        SELECT id FROM document
        """,
        html,
    )
    return int(number)


def states(office: TestInbox) -> list[str]:
    return [row["state"] for row in office.fetch("SELECT state FROM office.documents ORDER BY id")]


def test_a_document_is_converted_and_another_is_given_up(inbox: TestInbox, folder: Path) -> None:
    submit(inbox, "<h1>Offer</h1><p>One lamp, 12 EUR.</p>")
    submit(inbox, '<img src="/etc/passwd">')

    drained = inbox.drain(check=False)

    assert states(inbox) == ["converted", "failed"]
    [pdf] = folder.iterdir()
    assert inbox.fetchval("SELECT path FROM office.pdfs") == str(pdf)
    [dead] = drained.dead
    assert dead.type == "documents.convert"
    assert "Reject" in (dead.error or "")
