"""`inboxd check` on webhook sources: errors, doubts, and webhooks that would be lost."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli, Result

KEY = 'keys = [{ secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" }]\n'
Check = Callable[[str], Result]


@pytest.fixture
def check(run_cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Check:
    """Check settings without a database."""
    monkeypatch.setenv("INBOXD_DATABASE__DSN", "postgresql://127.0.0.1:1/none")
    monkeypatch.setenv("INBOXD_WORKER__PLUGINS", "testplugin")

    def run(text: str) -> Result:
        settings = tmp_path / "inboxd.toml"
        settings.write_text(text)
        result = run_cli("check", "-c", settings, "--json")
        assert "hunter2" not in result.out + result.err
        return result

    return run


def of(result: Result, subject: str) -> list[dict[str, Any]]:
    return [each for each in result.json["checks"] if each["subject"] == subject]


def test_settings_without_sources_give_no_line(check: Check) -> None:
    assert not of(check(""), "webhooks")


def test_correct_source_is_named(check: Check) -> None:
    source = f'[inbound.webhooks.bank]\ntype = "a"\n{KEY}'
    result = check(f'[inbound.spool]\npath = "/var/lib/inboxd"\n{source}')
    assert not of(result, "webhooks: bank")
    (line,) = of(result, "webhooks")
    assert (line["verdict"], line["found"]) == ("ok", "1 source: bank")
    assert [each["verdict"] for each in of(check(source), "webhooks")] == ["warn", "ok"]


def test_losses_of_webhooks_are_reported(check: Check) -> None:
    result = check(
        '[inbound.webhooks.bank]\ntype = "test.unknown"\npaused = "refuse"\nrate = "5/s"\n'
        'keys = [{ secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", not_after = 2020-01-01 }]\n'
    )
    lines = of(result, "webhooks: bank")
    assert [each["verdict"] for each in lines] == ["fail", "warn", "warn"]
    assert "none of its 1 key is valid" in lines[0]["found"]
    assert all(each["remedy"] for each in lines)
    (doubt,) = of(result, "settings")
    assert "no handler subscribes to its type 'test.unknown'" in doubt["found"]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ('keys = [{ secret = "hunter2" }]', "key '1'"),
        ('scheme = "acme"', "scheme 'acme'"),
        (
            f'scheme = "bearer"\noptions = {{ header = "X-Token" }}\n{KEY}headers = ["x-token"]',
            "headers has x-token, which holds the secret of scheme 'bearer'",
        ),
        (
            f'scheme = "bearer"\noptions.header = "x-token"\n{KEY}dedup_key = "header:x-token"',
            "dedup_key has x-token, which holds the secret of scheme 'bearer'",
        ),
    ],
)
def test_errors_that_stop_a_receiver_fail(check: Check, lines: str, told: str) -> None:
    result = check(f'[inbound.webhooks.bank]\ntype = "a"\n{lines}\n')
    (line,) = of(result, "webhooks: bank")
    assert line["verdict"] == "fail"
    assert told in line["found"]


def test_doubts_of_a_scheme_are_warnings(check: Check) -> None:
    result = check(
        '[inbound.webhooks.bank]\ntype = "a"\nscheme = "bearer"\nkeys = [{ secret = "short" }]\n'
    )
    (line,) = of(result, "webhooks: bank")
    assert line["verdict"] == "warn"
    assert "could be guessed" in line["found"]


def test_mistake_of_a_source_is_reported_once(check: Check) -> None:
    result = check('[inbound.webhooks.bank]\ntype = "a"\nscheme = 3\n')
    assert not of(result, "webhooks: bank")
    assert result.err.count("scheme") == 1
