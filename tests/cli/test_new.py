"""`inboxd new`: makes a formatted and typed plugin, or refuses the name and writes nothing."""

import errno
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from inboxd import Handlers
from inboxd.model.sql_words import RESERVED
from inboxd.testing import run_command, run_event
from tests.cli.conftest import Cli
from tests.support import Database

LONGEST = "a" * 19 + "-" + "b" * 20


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def all_of(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_new_makes_a_plugin_and_prints_the_next_steps(run_cli: Cli, here: Path) -> None:
    made = run_cli("new", "order-mails")
    assert made.code == 0, made.err
    assert "\n  cd order-mails\n  pip install -e '.[test]'\n  pytest\n" in made.out
    assert all_of(here) == ["order-mails"]
    files = [file for file in (here / "order-mails").rglob("*") if file.is_file()]
    names = {str(file.relative_to(here / "order-mails")) for file in files}
    assert {"order_mails/plugin.py", "order_mails/migrations/0001_orders.sql"} <= names
    assert {"README.md", "config.toml", "compose.yaml", ".gitignore", "pyproject.toml"} <= names
    assert "order_mails/py.typed" in names
    for file in files:
        assert "{{" not in file.read_text(), file
    assert 'name = "order-mails"' in (here / "order-mails/pyproject.toml").read_text()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Shop", "not a valid plugin name"),
        ("2shop", "not a valid plugin name"),
        ("a--b", "not a valid plugin name"),
        ("a.b", "not a valid plugin name"),
        ("../shop", "not a valid plugin name"),
        ("", "not a valid plugin name"),
        (LONGEST + "c", "at most 40"),
        ("class", "a reserved word of Python"),
        ("user", "a reserved word of PostgreSQL"),
        ("pg_shop", "a reserved word of PostgreSQL"),
        ("public", "each database has a schema 'public'"),
        ("json", "hide Python's own module 'json'"),
        ("test", "hide the module that is installed at"),
        ("tests", "has a folder 'tests' already"),
        ("inboxd", "hide the module that is installed at"),
        ("pydantic_settings", "hide the module that is installed at"),
        ("inboxd_school", "inboxd-school 0.1.0 is installed"),
    ],
)
def test_invalid_name_is_refused(run_cli: Cli, here: Path, name: str, why: str) -> None:
    refused = run_cli("new", name)
    assert (refused.code, refused.out) == (2, "")
    assert why in refused.err
    assert all_of(here) == []


@pytest.mark.anyio
async def test_reserved_words_are_those_of_postgresql(database: Database) -> None:
    words = await database.fetch(
        "SELECT word FROM pg_get_keywords() WHERE catcode IN ('R', 'T') ORDER BY word"
    )
    reserved = {word for (word,) in words}
    if await database.fetchval("SELECT current_setting('server_version_num')::int >= 180000"):
        assert reserved == RESERVED
    else:  # an older server may reserve words that a newer one does not
        assert reserved - RESERVED <= {"window"}


def test_existing_files_are_not_changed(run_cli: Cli, here: Path) -> None:
    (here / "shop").mkdir()
    (here / "shop/mine").write_text("mine")
    (here / "file").write_text("mine")
    for given in ([], ["--folder", "file"]):
        refused = run_cli("new", "shop", *given)
        assert refused.code == 2
        assert "exists, and is not an empty folder" in refused.err
    assert all_of(here) == ["file", "shop"]
    assert all_of(here / "shop") == ["mine"]


def test_empty_folder_is_filled(run_cli: Cli, here: Path) -> None:
    (here / "empty").mkdir()
    assert run_cli("new", "shop", "--folder", "empty").code == 0
    assert (here / "empty/shop/plugin.py").is_file()
    assert all_of(here) == ["empty"]


def test_empty_folder_may_be_the_current_one(run_cli: Cli, here: Path) -> None:
    stands_in = here.stat().st_ino
    assert run_cli("new", "shop", "--folder", ".").code == 0
    assert (Path("shop/plugin.py").is_file(), here.stat().st_ino) == (True, stands_in)
    assert [each for each in all_of(here) if each.startswith("..")] == []


@pytest.mark.parametrize("folder", ["missing/shop", "file/shop"])
def test_impossible_folder_is_refused(run_cli: Cli, here: Path, folder: str) -> None:
    (here / "file").write_text("mine")
    refused = run_cli("new", "shop", "--folder", folder)
    assert (refused.code, refused.out) == (2, "")
    assert f"{folder} cannot be made: " in refused.err
    assert "--folder" in refused.err
    assert all_of(here) == ["file"]


def test_full_disk_leaves_no_files(
    run_cli: Cli, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, written = Path.write_text, list[Path]()

    def fail(file: Path, text: str, **more: str) -> int:
        if len(written) == 3:
            raise OSError(errno.ENOSPC, "No space left on device", str(file))
        written.append(file)
        return write(file, text, **more)

    monkeypatch.setattr(Path, "write_text", fail)
    refused = run_cli("new", "shop")
    assert refused.code == 2
    assert "shop cannot be made: No space left on device" in refused.err
    assert len(written) == 3
    assert all_of(here) == []


@pytest.mark.parametrize("name", ["a", LONGEST])
def test_new_plugin_is_formatted_and_passes_ruff(run_cli: Cli, here: Path, name: str) -> None:
    assert run_cli("new", name).code == 0
    assert_silent(here / name, "ruff", "format", "--check", "--no-cache")
    assert_silent(here / name, "ruff", "check", "--no-cache")


@pytest.mark.long
def test_new_plugin_passes_strict_mypy(run_cli: Cli, here: Path) -> None:
    assert run_cli("new", "order-mails").code == 0
    assert_silent(here / "order-mails", "mypy", "--follow-imports=silent")


@pytest.mark.anyio
async def test_handlers_of_a_new_plugin_work_on_its_tables(
    run_cli: Cli, here: Path, database: Database
) -> None:
    """A quick test of the handlers: tests/docs/test_readme.py installs and runs a plugin."""
    assert run_cli("new", "order-mails").code == 0
    package = here / "order-mails/order_mails"
    handlers = handlers_of(package / "plugin.py")
    assert not handlers.build().problems
    await database.execute((package / "migrations" / "0001_orders.sql").read_text())
    placed = {"order_id": 7, "customer": "Ada", "cents": 1250}
    async with database.connect() as connection:
        await connection.execute("SET ROLE inboxd_worker")
        kept = await run_event(
            handlers,
            "order_mails.order_placed",
            placed,
            topic="order-mails-orders",
            connection=connection,
        )
        assert kept.error is None, kept.error
        [sent] = kept.commands
        done = await run_command(handlers, sent.type, sent.payload, connection=connection)
        assert done.error is None, done.error
    confirmed = "SELECT confirmed_at IS NOT NULL FROM order_mails.orders WHERE order_id = 7"
    assert await database.fetchval(confirmed)


def handlers_of(plugin: Path) -> Handlers:
    spec = importlib.util.spec_from_file_location("made_plugin", plugin)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    handlers = module.handlers
    assert isinstance(handlers, Handlers)
    return handlers


def assert_silent(folder: Path, *check: str) -> None:
    """Run a check with the settings of the plugin's pyproject.toml; it must find nothing."""
    ran = subprocess.run(
        [sys.executable, "-m", *check],
        cwd=folder,
        env={**os.environ, "MYPYPATH": "."},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
