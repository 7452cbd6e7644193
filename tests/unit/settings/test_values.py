"""Sizes, rates and sections: read and written in the same form, refused by name."""

from typing import Any

import pytest

from inboxd.errors import SettingsError
from inboxd.settings import (
    Database,
    describe,
    load,
)
from inboxd.settings.values import format_size, parse_size


@pytest.mark.parametrize("text", ["1B", "64KiB", "3MiB", "2GiB", "1025B"])
def test_size_is_written_as_it_is_read(text: str) -> None:
    assert format_size(parse_size(text)) == text


def test_sections_can_be_made_in_code() -> None:
    assert Database(schema="shop").schema_name == "shop"


@pytest.mark.parametrize(
    ("rate", "said"),
    [
        ("0/s", "a rate of 0 lets nothing run"),
        ("-5/m", "a rate of -5 lets nothing run"),
        ("10", "10/s"),
        ("9999999/s", "is too high"),
    ],
)
def test_invalid_rate_is_refused_by_name(written: Any, rate: str, said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load(written(f'[queues.email]\nrate = "{rate}"\n'), {})
    assert "[queues.email] rate: " in str(refused.value)
    assert said in str(refused.value)


def test_a_rate_is_written_as_it_is_read() -> None:
    settings = load(None, {"INBOXD_QUEUES__E__RATE": "600/m"})
    shown = {key: value for key, value, _ in describe(settings)}
    assert shown["queues.e.rate"] == "600/m"
