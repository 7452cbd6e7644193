"""Documents become PDFs, on a real database.

To run it: `pip install 'inboxd[embedded]' pytest`, then `pytest tests`.
"""

from pathlib import Path

import pytest

from documents.plugin import handlers
from inboxd import Handlers
from inboxd.testing import TestInbox


@pytest.fixture
def inboxd_handlers() -> Handlers:
    """Load this plugin alone, whatever else is installed."""
    return handlers


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the PDFs."""
    monkeypatch.setenv("DOCUMENTS_FOLDER", str(tmp_path))
    return tmp_path


def submit(office: TestInbox, html: str) -> int:
    """Save a document and its event in one transaction; returns the document's number."""
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


def test_one_document_is_converted_and_another_is_given_up(inbox: TestInbox, folder: Path) -> None:
    submit(inbox, "<h1>Offer</h1><p>One lamp, 12 EUR.</p>")
    submit(inbox, '<img src="/etc/passwd">')

    drained = inbox.drain(check=False)

    assert states(inbox) == ["converted", "failed"]
    [pdf] = folder.iterdir()
    assert inbox.fetchval("SELECT path FROM office.pdfs") == str(pdf)
    [dead] = drained.dead
    assert dead.type == "documents.convert"
    assert "Reject" in (dead.error or "")
