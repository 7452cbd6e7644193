"""Every statement has a header, fits the schema, and is used."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

import inboxd
from inboxd.store.columns import written_out
from inboxd.store.files import migrations_folder, sql_files
from tests.support import Database
from tests.support.rows import SQL, daemon_session

FUNCTIONS = sorted((migrations_folder() / "functions").glob("*.sql"))
PACKAGE = Path(inboxd.__file__).parent
STATEMENTS = sorted(sql_files())
CODE = "\n".join(file.read_text() for file in PACKAGE.rglob("*.py"))
# Statements that cannot be prepared: a block has no parameters, numbers are added to the begin of
# settle_command, and the test clock is in another schema.
UNPREPARED = {
    *("create_migrations", "drop_schema", "run_migration", "settle_command"),
    *("make_test_clock", "travel"),
}


@pytest.mark.parametrize("file", STATEMENTS, ids=lambda file: file.stem)
def test_header_names_parameters_results_and_locks(file: Path) -> None:
    lines = file.read_text().splitlines()
    header = [line for line in lines if line.startswith("--")]
    assert lines[: len(header)] == header, "comments stand together at the beginning"
    assert header[0].startswith("-- ")
    assert not re.match(r"-- (parameters|returns|locks):", header[0]), "begins with its purpose"
    for part in ("parameters", "returns", "locks"):
        assert sum(line.startswith(f"-- {part}:") for line in header) == 1, f"{part}: is missing"


def test_names_of_statements_are_unique() -> None:
    """Code asks for a statement by its name, without its folder."""
    names = Counter(file.stem for file in STATEMENTS)
    assert [name for name, times in names.items() if times > 1] == []
    assert set(PACKAGE.rglob("*.sql")) - set(migrations_folder().rglob("*.sql")) == set(STATEMENTS)


@pytest.mark.parametrize("file", STATEMENTS, ids=lambda file: file.stem)
def test_statement_is_used(file: Path) -> None:
    if f'"{file.stem}"' in CODE or f"['{file.stem}']" in CODE:
        return
    # Names made of a table: f"survey_{table}", f"set_{table}_flag", f"read_{resolution}".
    for table in ("events", "commands", "{table}", "{resolution}", "{span}"):
        if table in file.stem:
            pattern = re.escape(file.stem.replace(table, "TABLE")).replace("TABLE", r"\{\w+\}")
            if re.search(f'f"{pattern}"', CODE):
                return
    pytest.fail(f"{file.name} is not used: remove it")


def test_code_contains_no_sql() -> None:
    """Except in the client: producers import it alone, and it calls the public functions itself."""
    verb = re.compile(
        r'(?<!")"(?:select|insert into|update|delete from|alter|drop)\s', re.IGNORECASE
    )
    files = [file for file in PACKAGE.rglob("*.py") if "client" not in file.parts]
    assert [file.name for file in files if verb.search(file.read_text())] == []


@pytest.mark.anyio
async def test_every_statement_fits_the_schema(database: Database) -> None:
    wrong = {}
    async with daemon_session(database) as session:
        for name in sorted(set(SQL) - UNPREPARED):
            try:
                await session.connection.prepare(SQL[name])
            except asyncpg.PostgresError as error:
                wrong[name] = str(error)
    assert not wrong


@pytest.mark.parametrize("file", FUNCTIONS, ids=lambda file: file.stem)
def test_functions_header_names_callers_and_locks(file: Path) -> None:
    text = file.read_text()
    header = re.match(r"(--.*\n)+", text)
    assert header is not None
    assert not re.match(r"-- (called by|roles|locks):", text), "begins with its purpose"
    parts = re.findall(r"^-- (called by|roles|locks): ", header[0], re.MULTILINE)
    assert parts == ["called by", "roles", "locks"]
    assert re.findall(r"CREATE.* FUNCTION \{schema\}\.(\w+)", text)[-1] == file.stem
    assert _without_comments(text).strip().endswith(("$$;", "$do$;"))
    # Callers among functions and triggers are named; callers among statements are "the daemon".
    found = re.search(r"called by: (.*?)\n-- roles", header[0].replace("\n--  ", ""), re.DOTALL)
    assert found is not None
    calls = re.compile(rf"\{{schema\}}\.{file.stem}\b")
    callers = {
        each.stem
        for each in FUNCTIONS
        if each != file and calls.search(_without_comments(each.read_text()))
    }
    callers |= {f"trigger {name}" for name, text in _triggers().items() if calls.search(text)}
    if any(calls.search(text) for text in _statements()):
        callers.add("the daemon")
    assert set(found[1].split(", ")) - {"producers", "the migrations"} == callers


def _statements() -> Iterator[str]:
    """The texts of all statements, without a schema's name."""
    for each in STATEMENTS:
        text = written_out(_without_comments(each.read_text()))
        for table in ("events", "commands"):
            yield text.replace("{table}", table)


def _triggers() -> dict[str, str]:
    text = "".join(_without_comments(file.read_text()) for file in migrations_folder().glob("0*"))
    return dict(re.findall(r"CREATE TRIGGER (\w+)(.*?);", text, re.DOTALL))


def _without_comments(text: str) -> str:
    return re.sub(r"--.*", "", text)


@pytest.mark.parametrize(
    "file", sorted(migrations_folder().rglob("*.sql")), ids=lambda file: file.stem
)
def test_migrations_name_the_schema_only_by_its_placeholder(file: Path) -> None:
    code = _without_comments(file.read_text())
    settings = {"inboxd.notify", "inboxd.webhooks"}  # settings of sessions, in every schema
    assert not set(re.findall(r"\binboxd\.\w+", code)) - settings
