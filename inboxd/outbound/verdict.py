"""Judges an answer: success, a temporary failure, or a permanent one. *See:* `requests`.

Temporary are 408, 425, 429, 5xx and a missing answer: any other unexpected answer would be the same
at the next attempt. A redirect is permanent: an operator must check where it leads.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from inboxd.outbound.client import TargetAnswer

_TEMPORARY = frozenset({408, 425, 429})
_LONGEST_WAIT_SECONDS = 86_400.0
_DIGITS = 9


@dataclass(frozen=True, slots=True)
class Expected:
    codes: frozenset[int] = frozenset()
    classes: frozenset[int] = frozenset({2})

    @classmethod
    def of(cls, texts: Collection[str | int]) -> "Expected":
        """From "2xx", "204" or 204. Raises ValueError."""
        codes, classes = set[int](), set[int]()
        for each in texts:
            text = str(each)
            if len(text) == 3 and text[0] in "12345" and text[1:].lower() == "xx":  # noqa: PLR2004
                classes.add(int(text[0]))
            elif len(text) == 3 and text.isdecimal() and text[0] in "12345":  # noqa: PLR2004
                codes.add(int(text))
            else:
                raise ValueError(f'{text!r} is not an HTTP status: use 204 or "2xx".')
        return cls(frozenset(codes), frozenset(classes))

    def __contains__(self, status: int) -> bool:
        return status in self.codes or status // 100 in self.classes


@dataclass(frozen=True, slots=True)
class AnswerVerdict:
    """done: success. permanent: no attempt can succeed. after: seconds of a Retry-After."""

    done: bool
    permanent: bool = False
    after: float | None = None
    reason: str = ""


def judged(answer: TargetAnswer, expected: Expected, now: datetime) -> AnswerVerdict:
    """Judge an answer. now: with a time zone, for a Retry-After that is a date."""
    status = answer.status
    if status in expected:
        return AnswerVerdict(done=True)
    if status in _TEMPORARY or status >= 500:  # noqa: PLR2004
        after = retry_after(answer.headers.get("retry-after", ""), now)
        rest = "" if after is None else f", with a Retry-After of {after:g} s"
        return AnswerVerdict(done=False, after=after, reason=f"it answered {status}{rest}")
    if 300 <= status < 400:  # noqa: PLR2004
        reason = f"it answered {status}{_redirect_host(answer)}: redirects are not followed"
        return AnswerVerdict(done=False, permanent=True, reason=reason)
    return AnswerVerdict(done=False, permanent=True, reason=f"it answered {status}")


def retry_after(text: str, now: datetime) -> float | None:
    """Seconds of a Retry-After, at most a day; None if it is missing or invalid."""
    text = text.strip()
    if text.isascii() and text.isdecimal():
        return min(float(text[:_DIGITS]), _LONGEST_WAIT_SECONDS)
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return min(max((when - now).total_seconds(), 0.0), _LONGEST_WAIT_SECONDS)


def _redirect_host(answer: TargetAnswer) -> str:
    """The host of a redirect; the other parts of its URL may contain a secret."""
    try:
        host = urlsplit(answer.headers.get("location", "")).hostname
    except ValueError:
        return ""
    return f" to {host[:253]}" if host and host.isprintable() else ""
