"""Compares the live schema with what this release's migrations make.

Owns `schema.txt`, which the test writes that compares it with the migrations; functions' bodies are
in their files. Known limit: views, sequences, grants and partitions are not compared.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from inboxd.store import migrations
from inboxd.store.session import Session
from inboxd.store.statements import render

FILE = Path(__file__).with_name("schema.txt")
# Each section of the file: the kind of thing in it, and the statement that reads them.
_SECTIONS = {
    "tables": ("table", "catalogue_tables"),
    "constraints": ("constraint", "catalogue_constraints"),
    "indexes": ("index", "catalogue_indexes"),
    "functions": ("function", "catalogue_functions"),
    "triggers": ("trigger", "catalogue_triggers"),
}
# Things of these kinds have names that begin with their table's name.
_OF_TABLES = ("column", "constraint", "index", "trigger")

Names = dict[tuple[str, str], str]  # (kind, name) -> as PostgreSQL describes it


@dataclass(frozen=True, slots=True)
class Difference:
    """left: a function of an older release. statement: of a function, its file's CREATE."""

    kind: str
    name: str
    how: Literal["missing", "changed", "extra", "left"]
    expected: str = ""
    found: str = ""
    statement: str = ""


async def differences(session: Session) -> tuple[int, list[Difference]]:
    """Returns how many things were compared, and which differ.

    The session's search path must not contain the schema: PostgreSQL would shorten its names.
    """
    live: Names = {}
    bodies: dict[str, str] = {}
    for kind, statement in _SECTIONS.values():
        for row in await session.fetch(statement):
            live |= _entries(kind, row["name"], row["text"])
            if row["body"] is not None:
                bodies[row["name"]] = row["body"]
    shipped = _shipped(session.sql.schema)
    made = _made(session.sql.schema)
    ran = await migrations.applied(session)
    found = []
    for each in (*_compare(shipped, live), *_changed_bodies(made, shipped, bodies)):
        bare = _bare(each.name)
        if each.kind == "function" and bare in made:
            # A file with several variants ends with the one that fits every server.
            found.append(replace(each, statement=made[bare][-1].statement))
        elif each.kind == "function" and bare in ran.functions:
            found.append(replace(each, how="left"))
        else:
            found.append(each)
    return len(shipped), found


async def describe(session: Session) -> str:
    parts = []
    for section, (_, statement) in _SECTIONS.items():
        rows = await session.fetch(statement)
        parts.append("\n".join([f"# {section}", *(f"{r['name']}\n{r['text']}" for r in rows)]))
    text = "\n\n".join(parts) + "\n"
    # Except settings, which have these names in every schema.
    return re.sub(rf"\b{session.sql.schema}\.(?!(?:notify|webhooks)\b)", "{schema}.", text)


def tables() -> frozenset[str]:
    return frozenset(name for kind, name in _shipped("inboxd") if kind == "table")


def _shipped(schema: str) -> Names:
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
    """Whether `side` lacks the whole table: then only the table is reported."""
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
    for name, body in bodies.items():
        known = {each.digest for each in made.get(_bare(name), ())}
        if ("function", name) in shipped and body not in known:
            yield Difference("function", name, "changed", "another body", "its own")


def _bare(name: str) -> str:
    return name.partition("(")[0].rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class _Made:
    """How a file makes a function: the MD5 of its body, and the whole statement."""

    digest: str
    statement: str


_FUNCTION = re.compile(
    r"CREATE OR REPLACE FUNCTION .*?\bAS\s+"
    r"(?:(?P<mark>\$\w*\$)(?P<quoted>.*?)(?P=mark)|'(?P<plain>(?:[^']|'')*)');",
    re.DOTALL,
)


def _made(schema: str) -> dict[str, list[_Made]]:
    """How each function is made; several variants where it depends on the server's version."""
    known: dict[str, list[_Made]] = {}
    for function in migrations.functions():
        for found in _FUNCTION.finditer(function.text):
            body = render(found["quoted"] or found["plain"].replace("''", "'"), schema)
            digest = hashlib.md5(body.encode(), usedforsecurity=False).hexdigest()
            known.setdefault(function.name, []).append(_Made(digest, render(found[0], schema)))
    return known
