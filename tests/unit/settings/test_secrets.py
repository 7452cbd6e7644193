"""Secrets are in no message, description or representation."""

from typing import Any

import pytest

from inboxd.errors import SettingsError
from inboxd.settings import (
    describe,
    load,
)


@pytest.mark.parametrize(
    "dsn", ["mysql://u:hunter2@h/x", "postgresql://u:hunter2@h/x", "postgresql:/u:hunter2@h"]
)
def test_no_secret_in_any_message(written: Any, dsn: str) -> None:
    path = written(f'[database]\ndsn = "{dsn}"\npasword = "hunter2"\npassword = ["hunter2"]\n')
    with pytest.raises(SettingsError) as caught:
        load(path, {})
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_no_secret_in_repr_or_description() -> None:
    settings = load(
        None,
        {
            "INBOXD_DATABASE__DSN": "postgresql://u:hunter2@h1,h2/db?password=hunter2&sslmode=on",
            "INBOXD_DATABASE__PASSWORD": "hunter2",
        },
    )
    shown = {key: (value, source) for key, value, source in describe(settings)}
    assert "hunter2" not in f"{settings!r} {settings} {shown}"
    assert shown["database.dsn"] == (
        "postgresql://u:********@h1,h2/db?password=********&sslmode=on",
        "environment",
    )
