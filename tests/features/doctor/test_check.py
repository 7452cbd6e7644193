"""`inboxd check`: each line has a verdict, and each problem a remedy."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import anyio
import asyncpg
import pytest

from inboxd.embedded import Server, free_port
from inboxd.operations.doctor.server import judge_version
from tests.cli.conftest import Cli
from tests.support import Database, StartWorker, eventually

Sql = Callable[..., list[asyncpg.Record]]


@pytest.fixture
def role(sql: Sql, database: Database) -> Iterator[str]:
    """Make a role with the right to log in, and no other; returns its URL."""
    name = f"{database.name}_daemon"
    sql(f"CREATE ROLE {name} LOGIN")
    parts = urlsplit(database.dsn)
    yield urlunsplit(parts._replace(netloc=f"{name}@{parts.netloc.rpartition('@')[2]}"))
    sql(f"DROP OWNED BY {name}")
    sql(f"DROP ROLE {name}")


def test_healthy_inbox_passes_all_checks(cli: Cli) -> None:
    result = cli("check", "--json")
    assert result.code == 0
    verdicts = {line["subject"]: line["verdict"] for line in result.json["checks"]}
    assert verdicts == dict.fromkeys(
        ("database", "schema", "privileges", "partitions", "retention", "plugins"), "ok"
    )
    assert {line["remedy"] for line in result.json["checks"]} == {""}, "no remedy is needed"
    dsn = result.json["settings"]["database.dsn"]
    assert dsn["source"] == "environment"
    assert "events.page_rows" in result.json["settings"]
    assert "events.page_rows" in cli("check", "--all").out


def _grants(checked: Any) -> list[str]:
    """Return the statements that grant missing privileges."""
    return [each["remedy"] for each in checked["checks"] if each["subject"] == "privileges"]


def test_one_grant_suffices_for_a_role_that_inherits(
    cli: Cli, role: str, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = urlsplit(role).username
    monkeypatch.setenv("INBOXD_DATABASE__DSN", role)
    (grant,) = _grants(cli("check", "--json").json)
    sql(grant)
    assert cli("check").code == 0
    sql(f"REVOKE inboxd_worker FROM {name}")
    # A role with NOINHERIT would need SET ROLE each time, so it needs grants of its own.
    sql(f"ALTER ROLE {name} NOINHERIT")
    assert len(_grants(cli("check", "--json").json)) > 20


def test_membership_without_inheritance_is_reported(
    cli: Cli, role: str, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The remedy is not to grant the same membership again."""
    name = urlsplit(role).username
    sql(f"ALTER ROLE {name} NOINHERIT")
    sql(f"GRANT inboxd_worker TO {name}")
    monkeypatch.setenv("INBOXD_DATABASE__DSN", role)
    result = cli("check", "--json")
    (line,) = [each for each in result.json["checks"] if each["subject"] == "privileges"]
    assert "is a member of 'inboxd_worker', but does not inherit its pri" in line["found"]
    sql(line["remedy"])
    assert cli("check").code == 0


def test_migrate_without_rights_names_the_owner(
    run_cli: Cli, role: str, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker's rights do not suffice."""
    ((owner,),) = sql("SELECT current_user")
    sql(f"GRANT inboxd_worker TO {urlsplit(role).username}")
    sql("DELETE FROM inboxd.schema_functions WHERE name = 'new_uuid'")
    monkeypatch.setenv("INBOXD_DATABASE__DSN", role)
    refused = run_cli("migrate", "--yes")
    assert refused.code == 69
    assert f"connect as '{owner}', or as a member of that role" in refused.err
    assert "inboxd check" not in refused.err


def test_workers_login_without_one_right_gets_its_grant(
    cli: Cli, role: str, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The login has an operator's rights, but is still checked as a worker's."""
    sql(f"GRANT inboxd_worker TO {urlsplit(role).username}")
    sql("REVOKE EXECUTE ON FUNCTION inboxd.settle_command FROM inboxd_worker")
    monkeypatch.setenv("INBOXD_DATABASE__DSN", role)
    result = cli("check", "--json")
    assert result.code == 1
    (grant,) = _grants(result.json)
    assert grant.startswith("GRANT EXECUTE ON FUNCTION inboxd.settle_command TO ")


def test_default_settings_are_not_listed(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copied file of settings lists only the values that differ from the defaults."""
    copied = tmp_path / "copied.toml"
    copied.write_text('[events]\npage_rows = 1000\n[worker]\nlease = "20s"\n')
    out = cli("check", "-c", copied).out
    assert "events.page_rows" not in out
    assert "worker.lease" in out
    assert "events.page_rows" in cli("check", "-c", copied, "--all").out
    for name in ("DATABASE__DSN", "WORKER__PLUGINS", "HTTP__PORT"):
        monkeypatch.delenv(f"INBOXD_{name}")
    monkeypatch.setenv("INBOXD_DATABASE__DSN", "postgresql://localhost/postgres")
    bare = cli("check").out
    assert bare.startswith("Checks\n"), "no empty table of settings"


def test_secrets_are_not_shown(
    cli: Cli, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INBOXD_DATABASE__PASSWORD", "hush-hush")
    parts = urlsplit(database.dsn)
    dsn = urlunsplit(parts._replace(netloc=f"postgres:tiptoe@{parts.netloc.rpartition('@')[2]}"))
    monkeypatch.setenv("INBOXD_DATABASE__DSN", dsn)
    for result in (cli("check", "--json"), cli("check", "--all")):
        assert "hush-hush" not in result.out
        assert "tiptoe" not in result.out


_LACKING = """
with granted as (
    select grantee, table_name as name, privilege_type as what
      from information_schema.table_privileges where table_schema = 'inboxd'
    union select grantee, table_name || '.' || column_name, privilege_type
      from information_schema.column_privileges where table_schema = 'inboxd'
    union select grantee, routine_name, privilege_type
      from information_schema.routine_privileges where routine_schema = 'inboxd')
select name, what from granted where grantee = 'inboxd_worker'
except select name, what from granted where grantee = $1
"""


def test_printed_grants_suffice_for_a_worker(
    cli: Cli, role: str, sql: Sql, monkeypatch: pytest.MonkeyPatch, start_worker: StartWorker
) -> None:
    monkeypatch.setenv("INBOXD_DATABASE__DSN", role)
    assert _grants(cli("check", "--json").json) == [
        f"GRANT inboxd_worker TO {urlsplit(role).username};"
    ]
    result = cli("check", "--grants", "--json")
    assert result.code == 1
    missing = [line for line in result.json["checks"] if line["subject"] == "privileges"]
    assert "USAGE on schema inboxd is missing" in [line["found"] for line in missing]
    for line in missing:
        sql(line["remedy"])
    assert cli("check").code == 0
    assert sql(_LACKING, urlsplit(role).username) == []
    cli("emit", "test.fan", '{"sends": 1}', "--force")

    async def settles() -> None:
        await start_worker({"database": {"dsn": role}})

        async def settled() -> bool:
            rows = await anyio.to_thread.run_sync(
                lambda: cli("commands", "list", "--status", "succeeded", "--json").json["commands"]
            )
            return len(rows) == 1

        await eventually(settled)

    anyio.run(settles)


def test_other_commands_report_missing_privileges_too(
    cli: Cli, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INBOXD_DATABASE__DSN", role)
    result = cli("events", "list")
    assert result.code == 69
    assert "inboxd check" in result.err


def test_check_warns_before_default_retention_drops_history(
    cli: Cli, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an upgrade from a release that kept all history, the first worker drops years of it."""

    def retention() -> dict[str, Any]:
        checks = cli("check", "--json").json["checks"]
        (line,) = [line for line in checks if line["subject"] == "retention"]
        return dict(line)

    for name in ("events_history_20240105", "events_history_20240106"):
        low = f"{name[-8:-4]}-{name[-4:-2]}-{name[-2:]}"
        sql(f"create table inboxd.{name} (like inboxd.events_history including all)")
        sql(
            f"alter table inboxd.events_history attach partition inboxd.{name}"
            f" for values from ('{low} 00:00+00') to ('{low} 24:00+00')"
        )
    assert retention()["verdict"] == "ok", "the partitions are empty"
    sql(
        "insert into inboxd.events_history (id, event_id, topic, mode, type, schema_version,"
        " payload, status, attempts, crashes, run_at, occurred_at, created_at, updated_at,"
        " finished_at) select 1, inboxd.new_uuid(), 'default', 'single', 'a', 1, '{}',"
        " 'succeeded', 1, 0, at, at, at, at, at"
        " from (select timestamptz '2024-01-06 12:00Z' as at) each"
    )
    line = retention()
    assert (line["verdict"], line["code"]) == ("warn", 0)
    assert "drops older partitions of events_history, from 2024-01-06 on" in line["found"]
    assert '"forever"' in line["remedy"]
    monkeypatch.setenv("INBOXD_HISTORY__EVENTS", "30d")
    assert retention()["verdict"] == "ok", "the settings choose 30 days"


def test_missing_partition_of_today_fails(cli: Cli, sql: Sql) -> None:
    for row in sql(r"SELECT relname FROM pg_class WHERE relname ~ 'bodies_\d{8}$'"):
        sql(f"DROP TABLE inboxd.{row['relname']}")
    result = cli("check", "--json")
    assert result.code == 1
    (line,) = [line for line in result.json["checks"] if line["subject"] == "partitions"]
    assert line["verdict"] == "fail"
    assert line["remedy"]


def test_silenced_producers_are_reported(cli: Cli, sql: Sql, database: Database) -> None:
    sql(f"ALTER DATABASE {database.name} SET inboxd.notify = 'off'")
    result = cli("check", "--json")
    assert result.code == 0
    (line,) = [line for line in result.json["checks"] if line["subject"] == "wake-ups"]
    assert database.name in line["found"]


def test_missing_plugin_and_missing_schema_fail(
    cli: Cli, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INBOXD_WORKER__PLUGINS", "testplugim")
    monkeypatch.setenv("INBOXD_DATABASE__SCHEMA", "elsewhere")
    result = cli("check", "--json")
    assert result.code == 1
    failed = {c["subject"]: c for c in result.json["checks"] if c["verdict"] == "fail"}
    assert set(failed) == {"schema", "plugins"}
    assert "did you mean 'testplugin'" in failed["plugins"]["found"]
    assert "inboxd migrate" in failed["schema"]["remedy"]


@pytest.mark.parametrize(
    ("major", "verdict"), [(14, "critical"), (15, "ok"), (18, "ok"), (19, "warning")]
)
def test_verdicts_of_server_versions(major: int, verdict: str) -> None:
    assert judge_version(major, f"{major}.1", "app").verdict == verdict


def test_nearer_settings_file_wins(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [tmp_path / f"{name}.toml" for name in ("variable", "before", "after")]
    for file in files:
        file.write_text(f"[worker]\nname = '{file.stem}'\n")
    variable, before, after = files
    monkeypatch.setenv("INBOXD_CONFIG", str(variable))

    def name(*arguments: object) -> str:
        found: str = cli(*arguments).json["settings"]["worker.name"]["value"]
        return found

    assert name("check", "--json") == "variable"
    assert name("-c", before, "check", "--json") == "before"
    assert name("-c", before, "check", "-c", after, "--json") == "after"


def test_unreachable_database_is_reported_without_its_password(
    run_cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    monkeypatch.setenv("INBOXD_DATABASE__DSN", f"postgresql://u:tiptoe@127.0.0.1:{port}/db")
    monkeypatch.setenv("INBOXD_WORKER__PLUGINS", "testplugin")
    result = run_cli("check")
    assert result.code == 69
    assert "tiptoe" not in result.out
    other = run_cli("events", "list")
    assert (other.code, other.out) == (69, "")
    assert str(port) in other.err
    assert "tiptoe" not in other.err


def test_wrong_password_is_reported_without_it(
    restartable_server: Server,
    restartable_database: Database,
    run_cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    anyio.run(restartable_database.execute, "CREATE ROLE shy LOGIN PASSWORD 'right'")
    rules = restartable_server.home / "cluster" / "pg_hba.conf"
    with restartable_server.outage():
        rules.write_text("host all shy all scram-sha-256\n" + rules.read_text())
    parts = urlsplit(restartable_database.dsn)
    where = parts.netloc.rpartition("@")[2]
    dsn = urlunsplit(parts._replace(netloc=f"shy:wr0ng@{where}"))
    monkeypatch.setenv("INBOXD_DATABASE__DSN", dsn)
    result = run_cli("status")
    assert result.code == 69
    assert "password" in result.err
    assert "wr0ng" not in result.err


def test_url_of_a_provider_is_accepted_or_explained(
    cli: Cli, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "INBOXD_DATABASE__DSN", f"{database.dsn}?channel_binding=prefer&connect_timeout=10"
    )
    assert cli("status").code == 0
    for parameter in ("pgbouncer=true", "ssl=true"):
        monkeypatch.setenv("INBOXD_DATABASE__DSN", f"{database.dsn}?{parameter}")
        refused = cli("status")
        assert refused.code == 69
        assert parameter.partition("=")[0] in refused.err
        assert "remove that parameter from the query of database.dsn" in refused.err


def test_mistakes_in_settings_are_reported(
    run_cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, wrong = tmp_path / "broken.toml", tmp_path / "wrong.toml"
    broken.write_text("[database\n")
    wrong.write_text("[database]\ndns = 'postgresql://x'\n[worker]\nlease = 30\n")
    for result in (run_cli("check", "-c", broken), run_cli("-c", broken, "run")):
        assert result.code == 78
        assert "not valid TOML" in result.err
    monkeypatch.setenv("INBOXD_CONFIG", str(wrong))
    result = run_cli("check")
    assert result.code == 78
    assert "did you mean 'dsn'" in result.err
    assert re.search(r"\[worker\] lease: .*unit", result.err)
    assert "Traceback" not in result.err
    wrong.write_text("[database]\npool_size = 4\n")
    result = run_cli("check")
    assert result.code == 78
    assert "database.pool_size (4) must be larger than events.chunk_concurrency (4)" in result.err


def test_too_small_quota_is_reported_with_the_smallest_one(run_cli: Cli, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text('[inbound.spool]\npath = "/tmp/spool"\nquota = "64MiB"\n')
    result = run_cli("check", "-c", wrong)
    assert result.code == 78
    told = "quota (64MiB) must be at least twice segment_size (64MiB), since"
    assert told in result.err
    assert "set quota to 128MiB or more" in result.err
    assert told in " ".join(result.out.split()), "also a line of the checks"


_WRONG = """
[types."test.nop"]
timeout = "5s"
[topics.mine]
count = 3
[schedules."test.tick"]
cron = "* * * * *"
command = "test.nop"
[worker]
topics = ["nowhere"]
"""


def test_all_mistakes_of_settings_are_reported_together(cli: Cli, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(_WRONG)
    result = cli("check", "-c", wrong, "--json")
    assert result.code == 1
    told = [each for each in result.json["checks"] if each["subject"] == "settings"]
    assert [each["found"].partition(":")[0] for each in told] == [
        '[topics."mine"]',
        '[types."test.nop"]',
        '[schedules."test.tick"]',
        "worker.topics",
    ]
    assert {each["remedy"] for each in told} == {"correct this in the settings"}
    assert all("did you mean 'test.noop'?" in told[n]["found"] for n in (1, 2))
    started = cli("run", "-c", wrong)
    assert started.code == 78
    for each in told:
        assert each["found"] in started.err


def test_mistakes_found_by_plugins_are_reported_with_wrong_values(cli: Cli, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(
        _WRONG.replace("[worker]", '[worker]\nlease = "10s"\npoll_interval = 5')
        + '[queues.defalt]\nconcurrency = 1\n[log]\nlevl = "info"\n'
    )
    result = cli("check", "-c", wrong, "--json")
    assert result.code == 78
    told = [each for each in result.json["checks"] if each["subject"] == "settings"]
    by_themselves = (
        f"{wrong}: [worker] poll_interval: a duration is a text",
        f"{wrong}: [log]: unknown setting 'levl'; did you mean 'level'?",
        f"{wrong}: [worker]: heartbeat_interval must be",
    )
    for each, start in zip(told, by_themselves, strict=False):
        assert (each["verdict"], each["code"]) == ("fail", 78)
        assert each["found"].startswith(start)
        assert each["found"] in result.err
    assert [(each["verdict"], each["found"].partition(":")[0]) for each in told[3:]] == [
        ("fail", '[topics."mine"]'),
        ("fail", '[types."test.nop"]'),
        ("fail", '[schedules."test.tick"]'),
        ("fail", "worker.topics"),
        ("warn", "[queues.defalt]"),
    ]
    looked_at = {each["subject"]: each["verdict"] for each in result.json["checks"]}
    assert looked_at["database"] == looked_at["schema"] == "ok"
    started = cli("run", "-c", wrong)
    assert started.code == 78
    for each in told[:-1]:
        assert each["found"] in started.err
    assert started.err == cli("declare", "-c", wrong).err
    shown = cli("check", "-c", wrong)
    assert (shown.code, shown.err) == (78, result.err)
    assert "[queues.defalt]" in shown.out


def test_skipped_checks_are_reported(run_cli: Cli, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("[database]\npool_size = 'x'\n[worker]\nplugins = [3]\n")
    result = run_cli("check", "-c", wrong, "--json")
    assert result.code == 78
    assert [
        (each["subject"], each["verdict"]) for each in result.json["checks"] if each["code"] == 0
    ] == [("database", "warn"), ("plugins", "warn")]


def test_undeclared_names_in_settings_are_warnings(cli: Cli, sql: Sql, tmp_path: Path) -> None:
    sql("insert into inboxd.declared_types (kind, type, queue) values ('command', 'a.b', 'htpp')")
    doubtful = tmp_path / "doubtful.toml"
    doubtful.write_text(
        '[worker]\nqueues = ["defalt"]\n[queues.htp]\nconcurrency = 1\n[queues.htpp]\n'
        'concurrency = 1\n[topics.orderd]\n[topics.own]\n[types."test.trn"]\nunhandled = "dead"\n'
    )
    result = cli("check", "-c", doubtful, "--json")
    assert result.code == 0
    told = {
        each["found"].partition(": ")[0]: each
        for each in result.json["checks"]
        if each["subject"] == "settings"
    }
    assert set(told) == {"worker.queues", "[queues.htp]", "[topics.orderd]", '[types."test.trn"]'}
    assert {each["verdict"] for each in told.values()} == {"warn"}
    for setting, meant in (
        ("worker.queues", "default"),
        ("[queues.htp]", "htpp"),
        ("[topics.orderd]", "ordered"),
        ('[types."test.trn"]', "test.turn"),
    ):
        assert f"did you mean {meant!r}?" in told[setting]["found"]
