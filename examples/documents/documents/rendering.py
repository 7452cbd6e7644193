"""HTML becomes a PDF, in a file that is written once.

Owns the conversion and the file. Promises: the same HTML gives the same bytes; a file has its name
only when it is whole, so an attempt that is killed leaves none, and one that is repeated finds what
the first has written. Known limits: Latin letters, no images; a process that is killed while it
writes leaves a file with another name behind.
"""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from fpdf import FPDF
from fpdf.errors import FPDFException

from inboxd import Reject

# A PDF says when it was made; a repetition must not say something else.
_MADE = datetime(2000, 1, 1, tzinfo=UTC)


def render(html: str) -> bytes:
    """The PDF. Raises Reject for HTML that can never become one."""
    pdf = FPDF()
    pdf.set_creation_date(_MADE)
    pdf.set_font("helvetica")
    pdf.add_page()
    try:
        pdf.write_html(html, image_map=_refuse_image)
    except FPDFException as error:
        # Not passed on as it is: it comes from another process, and must be known in this one.
        raise Reject(f"{type(error).__name__}: {error}") from None
    return bytes(pdf.output())


def write_once(path: Path, make: Callable[[], bytes]) -> int:
    """Write what `make` gives, unless the file is there. Returns its size."""
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
    """Who writes a document must not choose what this machine opens."""
    raise Reject(f"images are not fetched ({source:.100})")
