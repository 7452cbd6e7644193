"""Only files with a secret that every account can read are named."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from inboxd.settings import load
from inboxd.settings.secret_files import open_to_others


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that every account of the machine may enter; folders of pytest are private."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def written(folder: Path, name: str, text: str, mode: int) -> Path:
    file = folder / name
    file.write_text(text)
    file.chmod(mode)
    return file


def test_each_kind_of_file_is_named(shared: Path) -> None:
    secret = "whsec_" + "A" * 40
    files = {
        name: written(shared, name, text, 0o644)
        for name, text in (
            ("db", "pw"),
            ("hook", secret),
            ("bank", "Bearer x"),
            ("bus", "pw"),
            ("out", secret),
            ("door", "x" * 40),
        )
    }
    config = written(
        shared,
        "c.toml",
        f"""
        [database]
        password_file = "{files["db"]}"
        [inbound.webhooks.shop]
        scheme = "standard_webhooks"
        type = "shop.sold"
        keys = [{{ id = "1", secret_file = "{files["hook"]}" }}]
        [targets.bank]
        url = "https://bank"
        authorization_file = "{files["bank"]}"
        [brokers.bus]
        kind = "nats"
        servers = ["127.0.0.1:4222"]
        password_file = "{files["bus"]}"
        [endpoints.acme]
        url = "https://acme"
        types = ["*"]
        secret_file = "{files["out"]}"
        [admin]
        enabled = true
        tokens = [{{ name = "ada", token_file = "{files["door"]}" }}]
        """,
        0o600,
    )
    settings = load(config, {})
    assert sorted(open_to_others(settings)) == sorted(files.values())
    for file in files.values():
        file.chmod(0o640)
    assert open_to_others(settings) == []


@pytest.mark.parametrize(
    ("dsn", "named"),
    [
        ("postgresql://u:pw@h/db", True),
        ("postgresql://u@h/db?password=pw", True),
        ("postgresql://u@h/db", False),
    ],
)
def test_settings_file_with_a_secret_is_named(shared: Path, dsn: str, named: bool) -> None:
    config = written(shared, "c.toml", f'[database]\ndsn = "{dsn}"\n', 0o644)
    assert open_to_others(load(config, {})) == [config] * named


def test_file_that_no_other_account_can_reach_is_not_named(shared: Path) -> None:
    file = written(shared, "db", "pw", 0o644)
    settings = load(None, {"INBOXD_DATABASE__PASSWORD_FILE": str(file)})
    assert open_to_others(settings) == [file]
    assert open_to_others(settings, platform=shared) == [], "the platform's own folder"
    shared.chmod(0o700)
    assert open_to_others(settings) == []
    shared.chmod(0o755)
    link = shared / "link"
    link.symlink_to(file)
    file.chmod(0o600)
    assert open_to_others(load(None, {"INBOXD_DATABASE__PASSWORD_FILE": str(link)})) == []


def test_environment_is_not_named_as_a_file(shared: Path) -> None:
    assert open_to_others(load(None, {"INBOXD_DATABASE__PASSWORD": "a/b"})) == []
