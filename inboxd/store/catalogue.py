"""What the schema holds, beside what this release's migrations make.

Owns `schema.txt`: every table, column, constraint, index, function and trigger by name and as
PostgreSQL describes it, written by the test that holds the migrations against it. What a function
does is looked up in the migrations themselves. So no second database is needed to see what
somebody changed by hand. Known limits: views, sequences, grants and partitions are not compared,
nor what a function does that a migration makes from a pattern.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from inboxd.store import migrations
from inboxd.store.connections import Connection
from inboxd.store.statements import Statements, render

FILE = Path(__file__).with_name("schema.txt")
# Each section of the file: the kind of thing in it, and the statement that reads them.
_SECTIONS = {
    "tables": ("table", "catalogue_tables"),
    "constraints": ("constraint", "catalogue_constraints"),
    "indexes": ("index", "catalogue_indexes"),
    "functions": ("function", "catalogue_functions"),
    "triggers": ("trigger", "catalogue_triggers"),
}
# What a section is part of has its table's name before its own.
_OF_TABLES = ("column", "constraint", "index", "trigger")

Names = dict[tuple[str, str], str]  # (kind, name) -> as PostgreSQL describes it


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as the migrations make it; its texts are PostgreSQL's.

    statement: of a function, what makes it, as its migration has it; empty where that is a pattern.
    """

    kind: str
    name: str
    how: Literal["missing", "changed", "extra"]
    expected: str = ""
    found: str = ""
    statement: str = ""


async def differences(connection: Connection, sql: Statements) -> tuple[int, list[Difference]]:
    """How many things were compared, and those that differ.

    The session's search path must hold none of the schema's names: PostgreSQL would shorten them.
    """
    live: Names = {}
    bodies: dict[str, str] = {}
    for kind, statement in _SECTIONS.values():
        for row in await connection.fetch(sql[statement]):
            live |= _entries(kind, row["name"], row["text"])
            if row["body"] is not None:
                bodies[row["name"]] = row["body"]
    shipped = _shipped(sql.schema)
    made = _made(sql.schema)
    found = [*_compare(shipped, live), *_changed_bodies(made, shipped, bodies)]
    return len(shipped), [
        # The last of several fits every server.
        replace(each, statement=made[_bare(each.name)][-1].statement)
        if each.kind == "function" and _bare(each.name) in made
        else each
        for each in found
    ]


async def describe(connection: Connection, sql: Statements) -> str:
    """The contents of `schema.txt` for the schema that is there."""
    parts = []
    for section, (_, statement) in _SECTIONS.items():
        rows = await connection.fetch(sql[statement])
        parts.append("\n".join([f"# {section}", *(f"{r['name']}\n{r['text']}" for r in rows)]))
    text = "\n\n".join(parts) + "\n"
    # Not the setting that producers know by this name in every schema.
    return re.sub(rf"\b{sql.schema}\.(?!notify\b)", "{schema}.", text)


def _shipped(schema: str) -> Names:
    """What the file names, in a schema of this name."""
    names: Names = {}
    for part in render(FILE.read_text(encoding="utf-8"), schema).split("# ")[1:]:
        section, *lines = part.rstrip("\n").split("\n")
        name, text = "", ""
        for line in [*lines, ""]:
            if line.startswith("  "):
                text += f"{line}\n"
                continue
            if name:
                names |= _entries(_SECTIONS[section][0], name, text.rstrip("\n"))
            name, text = line, ""
    return names


def _entries(kind: str, name: str, text: str) -> Names:
    """A table is one thing, and so is each of its columns."""
    if kind != "table":
        return {(kind, name): text.strip()}
    names = {("table", name): ""}
    for line in text.splitlines():
        first, _, rest = line.strip().partition(" ")
        if first == "with":
            names["settings", name] = rest
        else:
            names["column", f"{name}.{first}"] = rest
    return names


def _compare(shipped: Names, live: Names) -> Iterator[Difference]:
    for (kind, name), expected in shipped.items():
        found = live.get((kind, name))
        if found is None and not _without_table(kind, name, expected, live):
            yield Difference(kind, name, "missing", expected=expected)
        elif found is not None and found != expected:
            yield Difference(kind, name, "changed", expected, found)
    for (kind, name), found in live.items():
        if (kind, name) not in shipped and not _without_table(kind, name, found, shipped):
            yield Difference(kind, name, "extra", found=found)


def _without_table(kind: str, name: str, text: str, side: Names) -> bool:
    """Whether that side lacks the whole table: then it is said once."""
    if kind == "settings":
        table = name
    elif kind == "column":
        table = name.partition(".")[0]
    elif kind == "index":
        table = re.sub(r".* ON (?:ONLY )?(?:\w+\.)?(\w+) USING .*", r"\1", text)
    elif kind in _OF_TABLES:
        table = name.partition(" ")[0].rpartition(".")[2]
    else:
        return False
    return ("table", table) not in side


def _changed_bodies(
    made: Mapping[str, Sequence["_Made"]], shipped: Names, bodies: Mapping[str, str]
) -> Iterator[Difference]:
    """Functions that do something else than the newest migration that made them."""
    for name, body in bodies.items():
        known = {each.digest for each in made.get(_bare(name), ())}
        if ("function", name) in shipped and known and body not in known:
            yield Difference("function", name, "changed", "another body", "its own")


def _bare(name: str) -> str:
    """A function's name without its schema and arguments."""
    return name.partition("(")[0].rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class _Made:
    """How a migration makes a function: its body's fingerprint, and the whole statement."""

    digest: str
    statement: str


_FUNCTION = re.compile(
    r"CREATE (?:OR REPLACE )?(?P<rest>FUNCTION \{schema\}\.(?P<name>\w+)\s*\(.*?\bAS\s+"
    r"(?:(?P<mark>\$\w*\$)(?P<quoted>.*?)(?P=mark)|'(?P<plain>(?:[^']|'')*)'))",
    re.DOTALL,
)
# What a later migration adds to how a function runs, without making it anew.
_SETTING = re.compile(r"(?m)^ALTER FUNCTION \{schema\}\.(?P<name>\w+) SET [^;]+;")


def _made(schema: str) -> dict[str, list[_Made]]:
    """How each function is made in the newest migration that makes it.

    Several ways, where it depends on the server's version.
    """
    known: dict[str, list[_Made]] = {}
    for migration in migrations.shipped():
        here: dict[str, list[_Made]] = {}
        for found in _FUNCTION.finditer(migration.text):
            body = render(found["quoted"] or found["plain"].replace("''", "'"), schema)
            digest = hashlib.md5(body.encode(), usedforsecurity=False).hexdigest()
            statement = render(f"CREATE OR REPLACE {found['rest']};", schema)
            here.setdefault(found["name"], []).append(_Made(digest, statement))
        known |= here
        for found in _SETTING.finditer(migration.text):
            known[found["name"]] = [
                replace(each, statement=f"{each.statement}\n{render(found[0], schema)}")
                for each in known[found["name"]]
            ]
    return known
