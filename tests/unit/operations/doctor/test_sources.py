"""The doctor on webhook sources: each refusal may lose webhooks."""

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from inboxd.operations.doctor.finding import Finding
from inboxd.operations.doctor.sources import judge_sources
from inboxd.settings import Settings

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
KEY = {"id": "a", "secret": "s"}


def judged(source: dict[str, Any] | None = None, **http: Any) -> list[Finding]:
    bank = {"bank": {"type": "a", "keys": [KEY], **(source or {})}}
    inbound = {"http": http, "webhooks": bank, "spool": {"path": "/spool"}}
    return list(judge_sources(Settings.model_validate({"inbound": inbound}), NOW))


def told(found: list[Finding]) -> list[tuple[str, str]]:
    return [(each.subject, each.verdict) for each in found]


def test_healthy_source_is_only_named() -> None:
    (found,) = judged()
    assert (found.verdict, found.found) == ("ok", "1 source: bank")
    (none,) = judge_sources(Settings(), NOW)
    assert (none.verdict, none.found) == ("ok", "none")


@pytest.mark.parametrize(
    ("keys", "verdict", "words"),
    [
        ([{"not_after": "2026-11-23T11:59:59Z"}], "critical", "none of its 1 key is valid"),
        ([{"not_before": "2026-11-24T00:00:00Z"}], "critical", "it answers 401 to all"),
        ([{"not_after": "2026-12-01T12:00:00Z"}], "warning", "its last key ends in 8d"),
        (
            [{"not_after": "2026-11-25T12:00:00Z"}, {"not_after": "2026-11-24T12:00:00Z"}],
            "warning",
            "its last key ends in 2d",
        ),
    ],
)
def test_ending_keys_are_found(keys: list[dict[str, str]], verdict: str, words: str) -> None:
    given = [{"id": str(n), "secret": "s", **key} for n, key in enumerate(keys)]
    first, last = judged({"keys": given})
    assert (first.subject, first.verdict) == ("webhooks: bank", verdict)
    assert words in first.found
    assert "inbound.webhooks.bank.keys" in first.remedy
    assert last.verdict == "ok"


@pytest.mark.parametrize(
    "later", [{}, {"not_after": "2026-12-08T12:00:00Z"}, {"not_before": "2026-11-24T00:00:00Z"}]
)
def test_ending_key_with_a_successor_is_ok(later: dict[str, str]) -> None:
    ends = {"id": "old", "secret": "s", "not_after": "2026-11-25T12:00:00Z"}
    assert told(judged({"keys": [ends, {"id": "new", "secret": "s", **later}]})) == [
        ("webhooks", "ok")
    ]


@pytest.mark.parametrize(
    ("source", "http", "verdict", "word"),
    [
        ({"paused": "refuse"}, {}, "warning", '"hold"'),
        ({"rate": "5/s"}, {}, "notice", "inbound.webhooks.bank.rate"),
        ({"max_body": 19_999}, {}, "notice", "inbound.webhooks.bank.max_body"),
        ({}, {"rate_per_address": "5/s"}, "notice", "inbound.http.rate_per_address"),
    ],
)
def test_each_refusal_by_settings_is_reported_as_a_loss(
    source: dict[str, Any], http: dict[str, Any], verdict: str, word: str
) -> None:
    found, _ = judged(source, **http)
    assert found.verdict == verdict
    assert "lost if the sender does not retry" in found.found
    assert word in found.remedy


def test_source_without_a_spool_loses_webhooks_in_an_outage() -> None:
    settings = Settings.model_validate({"inbound": {"webhooks": {"bank": {"type": "a"}}}})
    found, last = judge_sources(settings, NOW)
    assert (found.subject, found.verdict) == ("webhooks", "notice")
    assert "lost if the sender does not retry" in found.found
    assert "inbound.spool.path" in found.remedy
    assert last.verdict == "ok"


def test_held_webhooks_are_not_lost() -> None:
    assert told(judged({"paused": "hold", "max_body": 20_000})) == [("webhooks", "ok")]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with two certificates of 10 days and their keys."""
    folder = tmp_path_factory.mktemp("tls")
    for name in ("one", "other"):
        subprocess.run(
            [
                *("openssl", "req", "-x509", "-newkey", "ec", "-nodes", "-days", "10"),
                *("-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", "/CN=inboxd"),
                *("-keyout", f"{folder}/{name}.key", "-out", f"{folder}/{name}.pem"),
            ],
            check=True,
            capture_output=True,
        )
    return folder


def listener(folder: Path, certificate: str, key: str) -> dict[str, Any]:
    return {"certificate": str(folder / certificate), "private_key": str(folder / key)}


@pytest.mark.parametrize(("ahead", "verdict"), [(0, "warning"), (-30, "ok"), (11, "critical")])
def test_ending_certificate_is_found(certificate: Path, ahead: int, verdict: str) -> None:
    settings = Settings.model_validate(
        {"inbound": {"http": listener(certificate, "one.pem", "one.key")}}
    )
    found, _ = judge_sources(settings, datetime.now(UTC) + timedelta(days=ahead))
    assert (found.subject, found.verdict) == ("webhooks: TLS", verdict)
    assert ("ended" if ahead > 10 else "ends in") in found.found


@pytest.mark.parametrize(
    ("pem", "key"), [("no.pem", "one.key"), ("one.pem", "other.key"), ("one.key", "one.pem")]
)
def test_unusable_certificate_is_found(certificate: Path, pem: str, key: str) -> None:
    found, _ = judged(None, **listener(certificate, pem, key))
    assert (found.subject, found.verdict) == ("webhooks: TLS", "critical")
    assert "cannot be used" in found.found
    assert found.remedy
