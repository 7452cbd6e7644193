"""How people and programs name a row: by its number, or by its uuid."""

from uuid import UUID

from inboxd.errors import UsageError

_LARGEST = 2**63 - 1
_DIGITS = 19
# As much of what was given as an error repeats.
_SHOWN = 100


def read_row_id(text: str) -> int | UUID:
    """A row number or a uuid. Raises UsageError."""
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS and int(text) <= _LARGEST:
        return int(text)
    return read_uuid(text, "a row number or a uuid")


def read_uuid(text: str, expected: str = "a uuid") -> UUID:
    """Raises UsageError when the text is none."""
    try:
        return UUID(text)
    except ValueError:
        raise UsageError(f"{text[:_SHOWN]!r} is not {expected}.") from None
