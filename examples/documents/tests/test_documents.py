"""The handlers by themselves, without PostgreSQL: `pip install pytest`, then `pytest tests`."""

from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from documents import plugin
from documents.packing import search
from documents.rendering import render
from inboxd import Connection, Reject
from inboxd.testing import run_command, run_event

pytestmark = pytest.mark.anyio

HANDLERS = plugin.handlers
DOCUMENT = {"document_id": 1, "html": "<h1>Offer</h1><p>One lamp, 12 EUR.</p>"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the PDFs."""
    monkeypatch.setenv("DOCUMENTS_FOLDER", str(tmp_path))
    return tmp_path


def fail(_html: str) -> bytes:
    raise AssertionError("the PDF exists already")


def files_of(folder: Path) -> list[tuple[str, bytes]]:
    return [(file.name, file.read_bytes()) for file in folder.iterdir()]


async def test_a_document_is_converted_then_registered_or_given_up() -> None:
    connection = AsyncMock(spec=Connection)
    connection.fetchval.return_value = "<p>Hello</p>"

    result = await run_event(
        HANDLERS, "document.submitted", {"document_id": 1}, connection=connection
    )

    [workflow] = result.workflows
    assert {name: dict(step.after) for name, step in workflow.steps.items()} == {
        "convert": {},
        "register": {"convert": "succeeded"},
        "give up": {"convert": "failed"},
    }


async def test_a_repeated_conversion_finds_the_file_of_the_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await run_command(HANDLERS, "documents.convert", DOCUMENT)
    [(name, content)] = files_of(folder)
    assert name.startswith("1-")
    assert content.startswith(b"%PDF")
    monkeypatch.setattr(plugin, "render", fail)

    second = await run_command(HANDLERS, "documents.convert", DOCUMENT)

    assert (first.error, second.error) == (None, None)
    assert first.outcome == second.outcome
    assert files_of(folder) == [(name, content)]


async def test_the_same_document_gives_the_same_bytes() -> None:
    assert render("<p>Hello</p>") == render("<p>Hello</p>")


@pytest.mark.parametrize("html", ['<img src="/etc/passwd">', "<p>Ωμέγα</p>"])
async def test_html_that_cannot_be_a_pdf_is_not_tried_again(html: str, folder: Path) -> None:
    wrong = {"document_id": 1, "html": html}
    result = await run_command(HANDLERS, "documents.convert", wrong)

    assert isinstance(result.error, Reject)
    assert not files_of(folder)


async def test_a_packing_reports_its_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "_REPORT_ROUNDS", 10)
    connection = AsyncMock(spec=Connection)
    sizes = {"1": 60, "2": 40, "3": 55, "4": 45}
    wanted = {"archive_id": 1, "capacity": 100, "rounds": 20, "sizes": sizes}

    result = await run_command(HANDLERS, "documents.pack", wanted, connection=connection)

    assert result.error is None
    assert [(said.done, said.of, said.note) for said in result.progress] == [
        (10, 20, "boxes needed: 2"),
        (20, 20, "boxes needed: 2"),
    ]
    [(_, rows)] = [call.args for call in connection.executemany.await_args_list]
    boxes = {document: box for _, document, box in rows}
    assert boxes[1] == boxes[2] != boxes[3] == boxes[4]


def test_no_box_holds_more_than_it_can() -> None:
    sizes = {number: 1 + number * 7 % 50 for number in range(40)}
    boxes = search(sizes, 60, range(50))

    assert sorted(each for box in boxes for each in box) == sorted(sizes)
    assert max(sum(sizes[each] for each in box) for box in boxes) <= 60
