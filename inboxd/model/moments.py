"""Points in time as people write them: "2h" before now by this machine's clock, or ISO 8601."""

from datetime import UTC, datetime, timedelta, tzinfo

from inboxd.errors import UsageError
from inboxd.model import duration


def read_since(text: str, zone: tzinfo | None = None) -> datetime:
    """A duration before now ("2h"), or ISO 8601. zone None: this machine's. Raises UsageError."""
    return _read(text, -1, zone)


def read_back(text: str, zone: tzinfo | None = None) -> datetime | timedelta:
    """Like `read_since`, but a duration stays one, for other clocks. Raises UsageError."""
    try:
        return with_zone(datetime.fromisoformat(text), zone).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    try:
        return duration.parse(text)
    except (UsageError, OverflowError):
        raise _unreadable(text) from None


def read_until(text: str, zone: tzinfo | None = None) -> datetime:
    """Read a time: "now", a duration from now ("2h"), or ISO 8601. Raises UsageError."""
    return _read("0s" if text == "now" else text, 1, zone)


def with_zone(at: datetime, zone: tzinfo | None) -> datetime:
    return at if at.tzinfo else at.replace(tzinfo=zone)


def _read(text: str, direction: int, zone: tzinfo | None) -> datetime:
    found = read_back(text, zone)
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
