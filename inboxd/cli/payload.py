"""A payload in an argument: JSON text, `@FILE`, or `-` for standard input."""

import sys
from pathlib import Path

from inboxd.errors import UsageError


def read_payload(given: str) -> str:
    """Read JSON text. Raises UsageError, which never quotes the payload."""
    from inboxd.model.json_text import check_json

    if given == "-":
        text, place = sys.stdin.buffer.read(), "standard input"
    elif given.startswith("@"):
        text, place = _read_file(Path(given[1:])), given[1:]
    else:
        text, place = given.encode(errors="surrogateescape"), "the payload"
    try:
        return check_json(text.decode(), place)
    except UnicodeDecodeError as error:
        raise UsageError(f"{place} is not valid UTF-8 at byte {error.start + 1}") from None


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot read the payload ({error.strerror})") from error
