"""`ON CONFLICT (…)` covers one unique index: a conflict in a second one is an error.

Two concurrent sessions collide at whichever index they reach first. So a statement names no index,
or its table has no other unique index that it can violate, or `BESIDE` gives the reason.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from inboxd.store.files import sql_files

ROOT = Path(__file__).resolve().parents[2]

_INDEX = re.compile(
    r"CREATE UNIQUE INDEX (\w+) ON (?:ONLY )?\{schema\}\.(\w+) USING btree \((.*?)\)"
    r"(?: WHERE .*)?$",
    re.MULTILINE,
)
_INSERT = re.compile(r"INSERT INTO ([^\s(]+)|ON CONFLICT \(([^)]*)\)", re.IGNORECASE)
_TABLE = re.compile(r"CREATE TABLE (\S+) \((.*?)\n\s*\)", re.DOTALL)
_UNIQUE = re.compile(r"^(?!.*IDENTITY).*\b(?:PRIMARY KEY|UNIQUE)\b", re.MULTILINE)

# The second index, and why an inserted row cannot conflict there.
BESIDE = {
    ("send_command", "commands_unique_key"): "one with a unique key goes to send_command_arrays",
    ("write_webhooks", "commands_unique_key"): "a delivery has no unique key",
    **{
        (name, index): "a new event has no position, and is no head"
        for name in ("copy_event_to", "emit_event", "write_events")
        for index in ("events_head", "events_lines")
    },
}


def named(text: str) -> Iterator[tuple[str, str]]:
    """The table and the columns of each `ON CONFLICT (…)`."""
    table = ""
    for found in _INSERT.finditer(text):
        if found[1]:
            table = found[1]
        else:
            yield table, found[2]


def columns(text: str) -> tuple[str, ...]:
    """The names of columns, without collations and quotes."""
    return tuple(each.split()[0].strip('"') for each in text.split(","))


def test_statements_have_no_second_unique_index() -> None:
    indexes: defaultdict[str, dict[str, tuple[str, ...]]] = defaultdict(dict)
    for name, table, of in _INDEX.findall((ROOT / "inboxd/store/schema.txt").read_text()):
        indexes["{schema}." + table][name] = columns(of)
    files = [*ROOT.glob("migrations/functions/*.sql"), *sql_files()]
    met, seen = set(), 0
    for file in files:
        for table, of in named(re.sub(r"{(span|resolution)}", "hours", file.read_text())):
            seen += 1
            assert columns(of) in indexes[table].values(), f"{file.name}: {table} ({of})"
            # Ids are drawn by the database: no other session has the same id.
            met |= {
                (file.stem, index)
                for index, others in indexes[table].items()
                if others not in (columns(of), ("id",))
            }
    assert seen > 30, "the statements are found"
    assert met == set(BESIDE)


def test_examples_have_no_second_unique_index() -> None:
    """Users copy examples: one of two concurrent registrations failed there."""
    unique, seen = {}, 0
    files = [*ROOT.glob("examples/*/*/migrations/*.sql"), *ROOT.glob("inboxd/**/*.sql.in")]
    for file in files:
        for table, body in _TABLE.findall(file.read_text()):
            unique[table] = len(_UNIQUE.findall(re.sub(r"--.*", "", body)))
    files = [*ROOT.glob("examples/*/*/**/*.py"), *ROOT.glob("inboxd/**/*.py.in")]
    for file in files:
        for table, of in named(file.read_text()):
            if table in unique:
                seen += 1
                assert unique[table] == 1, f"{file}: {table} ({of})"
    assert seen >= 6, "the statements are found"
