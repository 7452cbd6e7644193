"""`inboxd doctor` on webhooks: each test causes a real problem."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.cli.conftest import Cli
from tests.cli.troubles import Report, Sql
from tests.support import Database
from tests.support.receipts import receipt, receive, received


def test_contradictions_broken_bodies_and_held_receipts_are_found(
    cli: Cli, sql: Sql, database: Database
) -> None:
    quiet = Report(cli)
    assert {each["subject"] for each in quiet.findings if each["group"] == "webhooks"} == {
        "webhooks",
        "receivers",
    }
    page = [
        receipt(received(payload={"n": 1}, dedup_key="k")),
        receipt(received(payload={"n": 2}, dedup_key="k")),
        receipt(received("a.b", broken="it is not JSON")),
        receipt(received("a.c", broken="it is not JSON"), source="old"),
        receipt(source="rests", hold=True),
    ]
    for each in page:
        anyio.run(receive, database, each)
    sql("update inboxd.events set updated_at = now() - interval '2 days' where source = 'old'")
    sql("update inboxd.held_sources set held_at = now() - interval '2 h'")
    report = Report(cli)
    report.one("contradictions: psp", "warning", "1 came with the dedup key", "dismiss")
    report.one("broken bodies: psp", "warning", "1 could not become events", "inboxd failures")
    report.one("broken bodies: old", "notice", "the last 2d ago")
    report.one("held: rests", "warning", "1 receipt, the oldest for 2h")


def test_contradiction_without_a_receipt_is_not_counted(cli: Cli, sql: Sql) -> None:
    for n in (1, 2):
        sql(
            "insert into inboxd.events (type, source, dedup_key, payload)"
            f" values ('a.b', 's', 'k', '{{\"n\": {n}}}')"
        )
    assert sql("select count(*) from inboxd.events where status = 'failed'")[0][0] == 1
    assert not Report(cli).of("contradictions: s")


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Write a file of settings, which commands then read."""

    def write(text: str) -> None:
        path = tmp_path / "inboxd.toml"
        path.write_text(text)
        monkeypatch.setenv("INBOXD_CONFIG", str(path))

    return write


_RECEIVERS = """
insert into inboxd.receivers (id, name, host, pid, version, sources, state, beat_at)
select gen_random_uuid(), name, 'h', 7, '0.1', '{bank}', state, now() - silence
  from (values ('door', 'running', interval '1 s'), ('side', 'running', '5 min'),
               ('left', 'stopped', '5 min')) as r(name, state, silence)
"""


def test_silent_receivers_are_found(cli: Cli, sql: Sql, settings: Callable[[str], None]) -> None:
    settings('[inbound.webhooks.bank]\ntype = "a.b"\nkeys = [{ secret = "s" }]\n')
    sql(_RECEIVERS)
    Report(cli).one("receivers", "warning", "side (pid 7 on h)", "silent for 5m", "received bank")
    sql("delete from inboxd.receivers where name = 'side'")
    Report(cli).one("receivers", "ok", "1 process")


def test_sources_of_the_settings_are_checked(cli: Cli, settings: Callable[[str], Any]) -> None:
    settings(
        '[inbound.webhooks.bank]\ntype = "a.b"\n'
        'keys = [{ secret = "hunter2", not_after = 2020-01-01 }]\n'
    )
    report = Report(cli)
    report.one("receivers", "warning", "no receiver for bank", "inboxd receive")
    report.one("webhooks: bank", "critical", "none of its 1 key is valid")
    report.one("webhooks", "ok", "1 source: bank")
