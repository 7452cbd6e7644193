"""Targets: defaults, contradictions, their queues, and secrets that are never shown."""

from pathlib import Path

import pytest

from inboxd.errors import SettingsError
from inboxd.registry.plugins import build_registry, configured
from inboxd.settings import Settings, describe, load

BANK = '[targets.bank]\nurl = "https://bank.example/v1"\n'


def of(path: Path, text: str) -> Settings:
    (path / "c.toml").write_text(text)
    return load(path / "c.toml", {})


def test_secrets_come_from_files_and_are_never_shown(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("Bearer sesame\n")
    (tmp_path / "key").write_text("whsec_sesame\n")
    text = BANK + (
        f'authorization_file = "{tmp_path}/token"\nheaders = {{ X-Key = "sesame-2" }}\n'
        f'signature = "standard_webhooks"\nkeys = [{{ secret_file = "{tmp_path}/key" }}]\n'
    )
    settings = of(tmp_path, text)
    target = settings.targets["bank"]
    assert target.authorization is not None
    assert target.authorization.get_secret_value() == "Bearer sesame"
    assert target.keys[0].secret is not None
    assert "sesame" not in repr(settings)
    shown = {key: value for key, value, _ in describe(settings)}
    assert not any("sesame" in value for value in shown.values())
    assert shown["targets.bank.url"] == "https://bank.example/v1"


def test_the_queue_of_a_target_has_its_limits_and_its_breaker(tmp_path: Path) -> None:
    text = BANK + 'rate = "10/s"\nconcurrency = 3\n[queues."http.bank"]\nconcurrency = 7\n'
    (queue,) = of(tmp_path, text).all_queues.values()
    assert queue.model_dump(mode="json", exclude_unset=True) == {
        "breaker": "http.bank",
        "rate": "10/s",
        "concurrency": 7,
    }


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ('signature = "hmac"', "needs keys"),
        ('keys = [{ secret = "x" }]', "sign nothing"),
        ('signature = "standard_webhooks"\nkeys = [{ id = "a" }]', "has no secret"),
        ('authorization = "x"\nauthorization_file = "/y"', "leave one out"),
        ('allow = ["10.0.0.0/99"]', "address range"),
        ('hmac = { header = "x-s" }', "belong together"),
    ],
)
def test_contradiction_in_a_target_is_refused(tmp_path: Path, more: str, told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        of(tmp_path, BANK + more)


@pytest.mark.parametrize("url", ["bank.example", "ftp://x/", "https://u:p@x/", "https://x/?a=1"])
def test_url_that_cannot_be_called_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(SettingsError, match=r"\[targets.bank\]: url") as refused:
        of(tmp_path, f'[targets.bank]\nurl = "{url}"\n')
    assert "u:p" not in str(refused.value)


def test_command_exists_where_the_settings_ask_for_it(tmp_path: Path) -> None:
    plugins = build_registry([])
    assert configured(plugins, of(tmp_path, "")).command_types == []
    assert configured(plugins, of(tmp_path, BANK)).command_types == ["http.request"]
    text = "[outbound.http]\nenabled = true\n"
    assert configured(plugins, of(tmp_path, text)).command_types == ["http.request"]
