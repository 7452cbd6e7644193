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


def test_no_secret_is_shown_whatever_it_looks_like(written: Any) -> None:
    """A secret may look like a URL, or contain one."""
    settings = load(
        written(
            '[targets.crm]\nurl = "https://crm/"\nauthorization = "Bearer a://hunter2"\n'
            '[targets.crm.headers]\nx-key = "https://hunter2"\n'
            '[brokers.bus]\nkind = "nats"\nservers = ["n:4222"]\nuser = "u"\n'
            'password = "p://hunter2"\n'
        ),
        {"INBOXD_DATABASE__PASSWORD": "a://hunter2"},
    )
    assert "hunter2" not in str(describe(settings))
