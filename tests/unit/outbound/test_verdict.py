"""The verdict on each kind of answer; waits that a target asks for are bounded."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inboxd.outbound.client import TargetAnswer
from inboxd.outbound.verdict import AnswerVerdict, Expected, judged, retry_after

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = 86_400.0


def _judged(status: int, expect: list[str | int] | None = None, **headers: str) -> AnswerVerdict:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = TargetAnswer(status, named, b"", cut=False, seconds=0.1)
    return judged(answer, Expected.of(expect or ["2xx"]), NOW)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        *((status, "done") for status in (200, 201, 202, 204, 299)),
        *((status, "again") for status in (408, 425, 429, 500, 501, 502, 503, 504, 520, 599)),
        *((status, "never") for status in (300, 301, 302, 303, 304, 307, 308)),
        *((status, "never") for status in (400, 401, 403, 404, 405, 409, 410, 413, 422, 451)),
    ],
)
def test_each_status_has_its_verdict(status: int, outcome: str) -> None:
    found = _judged(status)
    assert ("done" if found.done else "never" if found.permanent else "again") == outcome
    assert found.done or str(status) in found.reason


def test_only_expected_statuses_are_a_success() -> None:
    assert _judged(404, [404]).done
    assert _judged(503, ["2xx", "5xx"]).done
    assert _judged(200, ["201"]).permanent
    with pytest.raises(ValueError, match="is not an HTTP status"):
        Expected.of(["6xx"])


@pytest.mark.parametrize(
    ("location", "named"),
    [
        ("https://elsewhere.example/secret?token=1", " to elsewhere.example:"),
        *(("/only/a/path", "302:"), ("http://[::1", "302:"), ("", "302:"), ("http://", "302:")),
    ],
)
def test_a_redirect_shows_the_host_only(location: str, named: str) -> None:
    reason = _judged(302, location=location).reason
    assert named in reason
    assert "token" not in reason


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("7", 7.0), (" 7 ", 7.0), ("86401", DAY), ("9" * 5000, DAY), ("0", 0.0)),
        *(("Sun, 01 Mar 2026 12:01:00 GMT", 60.0), ("Sun, 01 Mar 2026 11:00:00 GMT", 0.0)),
        *(("Mon, 01 Jan 2035 00:00:00 GMT", DAY), ("Sunday, 01-Mar-26 12:01:00 GMT", 60.0)),
        *(("", None), ("soon", None), ("-1", None), ("1.5", None), ("1e3", None), ("٣", None)),
        *(("Sun, 99 Mar 2026 12:01:00 GMT", None), ("7, 8", None)),
    ],
)
def test_retry_after_is_seconds_or_a_date(text: str, seconds: float | None) -> None:
    assert retry_after(text, NOW) == seconds


@given(st.text() | st.from_regex(r"\A[A-Za-z]{0,4},? ?\d{0,6} [A-Za-z]{0,4} -?\d{0,9} [\d:+-]*"))
def test_any_retry_after_is_bounded(text: str) -> None:
    found = retry_after(text, NOW)
    assert found is None or 0 <= found <= DAY


@given(st.integers(0, 10**6))
def test_a_date_is_the_same_wait_as_its_seconds(seconds: int) -> None:
    date = format_datetime(NOW + timedelta(seconds=seconds), usegmt=True)
    assert retry_after(date, NOW) == retry_after(str(seconds), NOW)
