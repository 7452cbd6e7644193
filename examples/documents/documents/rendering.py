"""HTML becomes a PDF, in a file that is written once.

Owns the conversion and the file. Promises: the same HTML gives the same bytes; a file gets its name
only when it is complete, so an attempt that is killed leaves no file of that name, and a repeated
attempt finds the file of the first.
Known limits: Latin letters, no images; a process that is killed while it writes leaves a file with
another name behind.
"""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from fpdf import FPDF
from fpdf.errors import FPDFException

from inboxd import Reject

# A PDF contains its date of creation: a fixed one, so that a repetition gives the same bytes.
_MADE = datetime(2000, 1, 1, tzinfo=UTC)


def render(html: str) -> bytes:
    """The PDF. Raises Reject for HTML that can never become a PDF."""
    pdf = FPDF()
    pdf.set_creation_date(_MADE)
    pdf.set_font("helvetica")
    pdf.add_page()
    try:
        pdf.write_html(html, image_map=_refuse_image)
    except FPDFException as error:
        # A new error: the original comes from another process, and this one may not know its class.
        raise Reject(f"{type(error).__name__}: {error}") from None
    return bytes(pdf.output())


def write_once(path: Path, make: Callable[[], bytes]) -> int:
    """Write the file with what `make` returns, unless it exists. Returns its size in bytes."""
    if not path.exists():
        content = make()
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}")
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    return path.stat().st_size


def _refuse_image(source: str) -> NoReturn:
    """The author of a document must not choose what this machine opens."""
    raise Reject(f"images are not fetched ({source:.100})")
