"""Counts, spans and sizes in words."""

import pytest

from inboxd.model.wording import plural, size, span


def test_plurals() -> None:
    told = [plural(count, "row") for count in (0, 1, 2, 12_000)]
    assert told == ["0 rows", "1 row", "2 rows", "12,000 rows"]


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (-1, "0s"),
        (0, "0s"),
        (0.0003, "0.3ms"),
        (0.25, "250ms"),
        (1, "1s"),
        (3.42, "3.4s"),
        (12.3, "12s"),
        (59.7, "1m"),
        (484, "8m4s"),
        (7_530, "2h5m"),
        (7_200, "2h"),
        (100_000, "1d3h"),
    ],
)
def test_spans_have_two_units_at_most(seconds: float, told: str) -> None:
    assert span(seconds) == told


def test_sizes() -> None:
    assert [size(n) for n in (0, 900, 12_345, 3.4 * 1024**3, 2**50)] == [
        *("0 bytes", "900 bytes", "12 kB", "3.4 GB", "1024 TB"),
    ]
