"""The password of a broker: from its file if there is one, and in no representation."""

from pathlib import Path

import pytest

from inboxd.errors import SettingsError
from inboxd.settings import Broker


def test_the_file_goes_before_the_setting_and_is_read_anew(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("hunter2\n")
    broker = Broker.model_validate({"password": "weaker", "password_file": file})
    assert broker.secret() == "hunter2"
    file.write_text("changed")
    assert broker.secret() == "changed"


def test_a_setting_alone_or_nothing(tmp_path: Path) -> None:
    broker = Broker.model_validate({"password": "hunter2"})
    assert broker.secret() == "hunter2"
    assert "hunter2" not in repr(broker)
    assert Broker().secret() is None


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    broker = Broker.model_validate({"password_file": tmp_path / "missing"})
    with pytest.raises(SettingsError, match=r"missing: cannot read the secret"):
        broker.secret()
