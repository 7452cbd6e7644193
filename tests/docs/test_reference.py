"""The files that `make docs` writes agree with the code, and the target writes them."""

import subprocess
from pathlib import Path

import pytest

from tests.support.reference import EXAMPLE, ROOT, example, files

FILES = dict(files())


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_file_is_as_the_code_makes_it(file: Path) -> None:
    assert file.read_text("utf-8") == FILES[file], "run `make docs`, and commit the difference"


def test_changed_description_is_written_anew() -> None:
    text = EXAMPLE.read_text("utf-8")
    older = text.replace("# Address of PostgreSQL;", "# The server;\n# or several.\n# Address;")
    assert older != text
    assert example(older) == text


def test_docs_target_runs_the_generator() -> None:
    asked = ["make", "--dry-run", "--no-print-directory", "docs"]
    told = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert told.splitlines()[-1].endswith("python -m tests.support.reference")


def test_each_page_has_content_of_every_source() -> None:
    """An empty page would agree with a generator that finds nothing."""
    pages = {file.name: text for file, text in FILES.items()}
    assert '- `heartbeat_interval` (`"5s"`):' in pages["settings.md"]
    assert "- `keys.secret_file`:" in pages["settings.md"]
    assert "### `inboxd commands replay`" in pages["cli.md"]
    assert "- `inboxd_events_total` (counter, `type`, `outcome`):" in pages["metrics.md"]
    assert "inboxd.send_workflow(\n    name text, steps jsonb" in pages["sql.md"]
