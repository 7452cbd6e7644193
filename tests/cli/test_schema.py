"""`inboxd migrate`: the plan, the check, the exit codes."""

from collections.abc import Collection, Iterator
from urllib.parse import urlsplit

import anyio
import pytest

from inboxd.embedded import Server
from inboxd.settings import Database as Settings
from inboxd.store import plugin_migrations
from inboxd.store.migrations import code_version, functions
from tests.cli.conftest import Cli
from tests.support import Database, ExternalServer, create, drop


@pytest.fixture
def database(server: Server | ExternalServer) -> Iterator[Database]:
    """Make a database without a schema of inboxd."""
    fresh = create(server)
    yield fresh
    drop(server, fresh)


def test_migrate_shows_the_plan_and_runs_it(cli: Cli) -> None:
    before = cli("migrate", "--check")
    assert before.code == 1
    assert "0001 tables" in before.out
    done = cli("migrate")
    assert done.code == 0
    assert done.out.index("0001 tables") < done.out.index("accept_event") < done.out.index("Done")
    assert f", and {len(functions()) - 5} more" in " ".join(done.out.split()), "a part of the list"
    assert cli("migrate", "--check").code == 0
    assert "nothing" in cli("migrate").out


def place(database: Database) -> str:
    """Return the text by which messages name the database."""
    parts = urlsplit(database.dsn)
    return f"database {parts.path[1:]!r} at {parts.hostname}:{parts.port}"


def test_refusals_of_a_schema_name_the_database(cli: Cli, database: Database) -> None:
    """With several projects on one machine, the database may be another project's."""
    here = place(database)
    for command in ("emit a.b {}", "trace 1", "status", "run", "pause type a"):
        result = cli(*command.split())
        assert result.code == 78, command
        assert here in result.err, command
        assert result.err.endswith("; run: inboxd migrate\n"), command
    for command in ("check", "doctor"):
        assert here in " ".join(cli(command).out.split()), command
    assert here in cli("migrate", "--check").out
    cli("migrate", "--to", 1)
    for command in ("run", "check", "doctor"):
        result = cli(command)
        assert here in " ".join((result.out + result.err).split()), command


def test_migrate_in_steps(cli: Cli) -> None:
    first = cli("migrate", "--to", 1, "--json").json
    ran = {"migrations": [{"version": 1, "name": "tables"}], "functions": [], "plugins": []}
    assert first == {"schema": "inboxd", "version": 1, "plugins": [], "ran": ran}
    pending = cli("migrate", "--check", "--json")
    assert pending.code == 1
    assert (pending.json["version"], pending.json["pending"]["migrations"][0]["version"]) == (1, 2)
    assert "accept_event" in pending.json["pending"]["functions"]
    done = cli("migrate", "--json").json
    assert done["version"] == code_version()
    assert done["ran"] == pending.json["pending"]
    for impossible in (1, 999):
        result = cli("migrate", "--to", impossible)
        assert result.code == 2
        assert result.err.count("\n") == 1


def test_single_function_is_pending(cli: Cli, database: Database) -> None:
    cli("migrate")
    changed = "update inboxd.schema_functions set checksum = '' where name = 'release'"
    anyio.run(database.execute, changed)
    before = cli("migrate", "--check")
    assert before.code == 1
    assert before.out.split("\n")[:2] == [
        f"Schema 'inboxd' of {place(database)} is at version {code_version()}; pending: functions",
        "  functions: release",
    ]
    pending = {"migrations": [], "functions": ["release"], "plugins": []}
    assert cli("migrate", "--check", "--json").json["pending"] == pending
    assert "inboxd migrate" in cli("check").out
    assert cli("migrate").code == 0
    assert cli("migrate", "--check").code == 0
    nothing: dict[str, list[object]] = {"migrations": [], "functions": [], "plugins": []}
    assert cli("migrate", "--check", "--json").json["pending"] == nothing


def test_migrate_overtaken_by_another_run_says_so(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = plugin_migrations.migrate

    async def overtaken(
        settings: Settings, plugins: Collection[str], to: int | None
    ) -> plugin_migrations.FullPlan:
        await run(settings, plugins)
        return await run(settings, plugins, to)

    monkeypatch.setattr(plugin_migrations, "migrate", overtaken)
    told = cli("migrate").out
    assert "Done by another run of inboxd migrate: schema 'inboxd' of database " in told
    assert f" is at version {code_version()}." in told


def test_schema_from_before_the_first_release_is_refused(cli: Cli, database: Database) -> None:
    cli("migrate")
    older = """update inboxd.schema_migrations set checksum = 'x' where version = 1;
               insert into inboxd.schema_migrations values (300, 'last', 299, 'x');
               drop table inboxd.schema_functions"""
    anyio.run(database.execute, older)
    for command, code in (
        (["migrate"], 78),
        (["migrate", "--check"], 78),
        (["run"], 78),
        (["check"], 1),
        (["doctor"], 1),
    ):
        result = cli(*command)
        assert result.code == code, command
        told = result.out + result.err
        assert "0001_tables ran with other contents" in told, command
        assert "a database from before the first release" in told, command
        assert "run: inboxd migrate" not in told, command


def test_migrate_asks_at_a_terminal(cli: Cli) -> None:
    refused = cli("migrate", stdin="n\n", terminal=True)
    assert refused.code == 1
    assert "0001 tables" in refused.out
    assert cli("migrate", "--check").code == 1
    assert cli("migrate", "--yes", "--to", 1, terminal=True).code == 0
    assert cli("migrate", stdin="y\n", terminal=True).code == 0
    assert cli("migrate", "--check").code == 0


def test_commands_without_a_schema_name_migrate(cli: Cli) -> None:
    for command in (["run"], ["events", "list"], ["status"], ["emit", "a.b"], ["workers"]):
        result = cli(*command)
        assert result.code == 78, command
        assert "inboxd migrate" in result.err
        assert "Traceback" not in result.err
