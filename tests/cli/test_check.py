"""`inboxd check`: every line has a verdict, and what is wrong says what to do."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
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
    """The URL of a role that may log in, and nothing else."""
    name = f"{database.name}_daemon"
    sql(f"CREATE ROLE {name} LOGIN")
    parts = urlsplit(database.dsn)
    yield urlunsplit(parts._replace(netloc=f"{name}@{parts.netloc.rpartition('@')[2]}"))
    sql(f"DROP OWNED BY {name}")
    sql(f"DROP ROLE {name}")


def test_all_is_well(cli: Cli) -> None:
    result = cli("check", "--json")
    assert result.code == 0
    verdicts = {line["subject"]: line["verdict"] for line in result.json["checks"]}
    assert verdicts == dict.fromkeys(
        ("database", "schema", "privileges", "partitions", "retention", "plugins"), "ok"
    )
    dsn = result.json["settings"]["database.dsn"]
    assert dsn["source"] == "environment"
    assert "events.page_rows" in result.json["settings"]
    assert "events.page_rows" not in cli("check").out
    assert "events.page_rows" in cli("check", "--settings").out


def test_no_secret_is_shown(cli: Cli, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INBOXD_DATABASE__PASSWORD", "hush-hush")
    parts = urlsplit(database.dsn)
    dsn = urlunsplit(parts._replace(netloc=f"postgres:tiptoe@{parts.netloc.rpartition('@')[2]}"))
    monkeypatch.setenv("INBOXD_DATABASE__DSN", dsn)
    for result in (cli("check", "--json"), cli("check", "--settings")):
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


def test_the_grants_that_it_names_are_what_the_daemon_needs(
    cli: Cli, role: str, sql: Sql, monkeypatch: pytest.MonkeyPatch, start_worker: StartWorker
) -> None:
    monkeypatch.setenv("INBOXD_DATABASE__DSN", role)
    result = cli("check", "--json")
    assert result.code == 1
    missing = [line for line in result.json["checks"] if line["subject"] == "privileges"]
    assert "USAGE on schema inboxd is missing" in [line["found"] for line in missing]
    for line in missing:
        sql(line["remedy"])
    assert cli("check").code == 0
    lacking = sql(_LACKING, urlsplit(role).username)
    assert not lacking, "of what the worker's role has"
    cli("emit", "test.fan", '{"sends": 1}')

    async def settles() -> None:
        await start_worker({"database": {"dsn": role}})

        async def settled() -> bool:
            rows = await anyio.to_thread.run_sync(
                lambda: cli("commands", "list", "--status", "succeeded", "--json").json["commands"]
            )
            return len(rows) == 1

        await eventually(settled)

    anyio.run(settles)


def test_a_missing_privilege_is_named_by_other_commands_too(
    cli: Cli, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INBOXD_DATABASE__DSN", role)
    result = cli("events", "list")
    assert result.code == 69
    assert "inboxd check" in result.err


def test_partitions_that_run_out(cli: Cli, sql: Sql) -> None:
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


def test_a_missing_plugin_and_a_missing_schema(
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
def test_server_versions(major: int, verdict: str) -> None:
    assert judge_version(major, f"{major}.1", "app").verdict == verdict


def test_the_nearer_settings_file_wins(
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


def test_no_database(run_cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_wrong_password(
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


def test_settings_with_mistakes(
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
    assert "database.pool_size (4) must be larger than events.lists (4)" in result.err
