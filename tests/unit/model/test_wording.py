"""Counts, spans and sizes in words."""

import pytest

from inboxd.model.lifecycle import Status
from inboxd.model.wording import STATUS_WORDS, one_line, plural, size, span, title_from


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


@pytest.mark.parametrize(
    ("type_", "title"),
    [
        ("order.shipped", "Order shipped"),
        ("orderShipped", "OrderShipped"),
        ("billing.invoice_sent-again", "Billing invoice sent again"),
        ("x", "X"),
        ("...", "..."),
    ],
)
def test_a_title_is_made_from_a_type(type_: str, title: str) -> None:
    assert title_from(type_) == title


def test_foreign_text_becomes_one_short_line() -> None:
    assert one_line("plain", 5) == "plain"
    assert one_line("longer", 5) == "long\N{HORIZONTAL ELLIPSIS}"
    assert one_line("a\nb\x1bc\u202ed", 9).isprintable()


def test_each_status_has_a_word() -> None:
    assert STATUS_WORDS.keys() == set(Status)
    assert len(set(STATUS_WORDS.values())) == len(Status)
