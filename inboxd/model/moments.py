"""Points in time as people write them: "2h" before now, or a time in ISO 8601.

Promises: any other text is refused with a remedy.
Known limit: times relative to now use this machine's clock.
"""

from datetime import UTC, datetime, timedelta

from inboxd.errors import UsageError
from inboxd.model import duration


def read_since(text: str) -> datetime:
    """Read a time: a duration before now ("2h"), or ISO 8601, local time without a zone.

    Raises UsageError.
    """
    return _read(text, -1)


def read_back(text: str) -> datetime | timedelta:
    """Read a time like `read_since`; a duration is returned for callers with another clock.

    Raises UsageError.
    """
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    try:
        return duration.parse(text)
    except (UsageError, OverflowError):
        raise _unreadable(text) from None


def read_until(text: str) -> datetime:
    """Read a time: "now", a duration from now ("2h"), or ISO 8601 as above. Raises UsageError."""
    return _read("0s" if text == "now" else text, 1)


def _read(text: str, direction: int) -> datetime:
    found = read_back(text)
    if isinstance(found, datetime):
        return found
    try:
        return datetime.now(UTC) + direction * found
    except OverflowError:
        raise _unreadable(text) from None


def _unreadable(text: str) -> UsageError:
    return UsageError(
        f"{text!r} is neither a duration such as 2h nor a time such as 2026-01-31T08:00."
    )
