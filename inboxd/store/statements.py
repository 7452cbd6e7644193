"""The SQL statements: one file each in `sql/`, rendered when they are loaded.

Owns reading the files; no other module holds SQL. The files are in a folder per subject, but a
statement is found by its name alone, which is unique over all folders. Promises that a name that
does not exist fails when the store is built, not at the first use, and that nothing depends on a
session's `search_path`.

A file with `{table}` in its name is two statements, one for events and one for commands:
`count_{table}.sql` is `count_events` and `count_commands`. In its text `{table}` is that word,
`{kind}` is `event` or `command`, and `{topic or queue}` is `topic` for events and `queue` for
commands. Likewise a file with `{resolution}` in its name is a statement for each table of
statistics (minutes, hours, days), and one with `{span}` for hours and days only; `{unit}` is then
`minute`, `hour` or `day`. Known limit: only these, `{schema}` and the lists of columns
(`inboxd.store.columns`) are replaced; values are parameters.

Data that not every role may read is marked: `{content text: errors -> -1 ->> 'error'}` is that
expression, or a NULL of that type in statements for a role that may not read contents. So one
statement serves all roles, and never names a column that is not granted to its role.
"""

import re
from collections.abc import Collection
from functools import cache
from typing import Literal

from inboxd.errors import UsageError
from inboxd.store.columns import written_out
from inboxd.store.files import sql_folder

# content: payloads, headers, bodies, results, progress, URLs, and errors, which may quote those
# (also errors of spools and of unreadable messages).
# secret: the signing secrets of endpoints.
Kept = Literal["content", "secret"]

# Placeholders in file names besides `{table}`: their words, each with its unit.
_RESOLUTIONS = {"minutes": "minute", "hours": "hour", "days": "day"}
_LONGER = {name: unit for name, unit in _RESOLUTIONS.items() if name != "minutes"}
_EACH = {"{resolution}": _RESOLUTIONS, "{span}": _LONGER}
_ONE_OR_OTHER = re.compile(r"\{([^{}]+) or ([^{}]+)\}")
_KEPT = re.compile(r"\{(content|secret) (\w+): ([^{}]+)\}")


class Statements(dict[str, str]):
    """The statements of one schema, by file name without folder and `.sql`.

    withheld: kinds of data that the role may not read.
    """

    __slots__ = ("schema",)

    def __init__(self, schema: str, withheld: Collection[Kept] = ()) -> None:
        super().__init__(_rendered(schema, frozenset(withheld)))
        self.schema = schema


class NotedStatements(Statements):
    """Statements that record which of them were used, once each, in the order of first use."""

    __slots__ = ("asked",)

    def __init__(self, of: Statements) -> None:
        """The statements of the same session."""
        dict.__init__(self, of)
        self.schema = of.schema
        self.asked: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        text = super().__getitem__(name)
        self.asked.setdefault(name, text)
        return text


def shared(name: str) -> str:
    """A statement without placeholders, the same in every schema."""
    return _files()[name]


def render(text: str, schema: str) -> str:
    """Put the schema's name into SQL.

    Checks the name, although the settings did: it is the one value that is not a parameter.
    """
    if not schema.isidentifier() or not schema.isascii() or schema != schema.lower():
        raise UsageError(
            f"{schema!r} is not a valid schema name: use lower-case letters, digits and underscores"
        )
    return text.replace("{schema}", schema)


def _without(withheld: Collection[Kept], text: str) -> str:
    return _KEPT.sub(lambda found: f"NULL::{found[2]}" if found[1] in withheld else found[3], text)


@cache
def _rendered(schema: str, withheld: frozenset[Kept]) -> dict[str, str]:
    return {name: _without(withheld, render(text, schema)) for name, text in _files().items()}


@cache
def _files() -> dict[str, str]:
    texts: dict[str, str] = {}
    for file in sql_folder().glob("*/*.sql"):
        text = _without_header(file.read_text(encoding="utf-8"))
        texts |= _written_for_each(file.stem, text)
    return {name: written_out(text) for name, text in texts.items()}


def _written_for_each(name: str, text: str) -> dict[str, str]:
    """The statements of a file, by name."""
    if "{table}" in name:
        return _of_both(name, text)
    for braces, words in _EACH.items():
        if braces in name:
            return {
                name.replace(braces, word): text.replace(braces, word).replace("{unit}", unit)
                for word, unit in words.items()
            }
    return {name: text}


def _of_both(name: str, text: str) -> dict[str, str]:
    """The statement for events and the one for commands."""
    found = {}
    for place, kind in enumerate(("event", "command"), start=1):
        chosen = _ONE_OR_OTHER.sub(rf"\{place}", text)
        chosen = chosen.replace("{table}", f"{kind}s").replace("{kind}", kind)
        found[name.replace("{table}", f"{kind}s")] = chosen
    return found


def _without_header(text: str) -> str:
    """The statement without its header, which would be sent to the server and its statistics."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("--"))
