"""Names of a row for people and programs: its number, or its uuid."""

from uuid import UUID

from inboxd.errors import UsageError

_LARGEST = 2**63 - 1
_DIGITS = 19
# How many characters of the given text an error repeats.
_SHOWN_CHARACTERS = 100


def read_row_id(text: str) -> int | UUID:
    """Read a row number or a uuid. Raises UsageError."""
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS and int(text) <= _LARGEST:
        return int(text)
    return read_uuid(text, "a row number or a uuid")


def read_uuid(text: str, expected: str = "a uuid") -> UUID:
    """Read a uuid. Raises UsageError for any other text."""
    try:
        return UUID(text)
    except ValueError:
        raise UsageError(f"{text[:_SHOWN_CHARACTERS]!r} is not {expected}.") from None
