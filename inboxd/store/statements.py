"""The SQL statements: one file each in `sql/`, or in that of a feature, rendered when loaded.

A statement is found by its file's name, which is unique over all folders. Promises that a name that
does not exist fails when the store is built, and independence of a session's `search_path`.

A file with `{table}` in its name is two statements: `count_{table}.sql` is `count_events` and
`count_commands`. In its text `{table}` is that word, `{kind}` is `event` or `command`, and
`{topic or queue}` is `topic` or `queue`. A file with `{resolution}` in its name is a statement for
each table of statistics (minutes, hours, days), one with `{span}` for hours and days only; `{unit}`
is then `minute`, `hour` or `day`. `{content text: errors -> -1 ->> 'error'}` is that expression, or
a NULL of that type for a role that may not read contents: so no statement names a column that is
not granted. Known limit: only these, `{schema}` and lists of columns (`inboxd.store.columns`) are
replaced.
"""

import re
from collections.abc import Collection
from functools import cache
from typing import Literal

from inboxd.errors import UsageError
from inboxd.store.columns import written_out
from inboxd.store.files import sql_files

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
    """By file name without `.sql`. withheld: kinds of data that the role may not read."""

    __slots__ = ("schema",)

    def __init__(self, schema: str, withheld: Collection[Kept] = ()) -> None:
        super().__init__(_rendered(schema, frozenset(withheld)))
        self.schema = schema


class NotedStatements(Statements):
    """Statements that record which of them were used, once each, in the order of first use."""

    __slots__ = ("asked",)

    def __init__(self, of: Statements) -> None:
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
    """Checks the schema's name, although the settings did: it is not a parameter."""
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
    for file in sql_files():
        text = _without_header(file.read_text(encoding="utf-8"))
        texts |= _written_for_each(file.stem, text)
    return {name: written_out(text) for name, text in texts.items()}


def _written_for_each(name: str, text: str) -> dict[str, str]:
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
    found = {}
    for place, kind in enumerate(("event", "command"), start=1):
        chosen = _ONE_OR_OTHER.sub(rf"\{place}", text)
        chosen = chosen.replace("{table}", f"{kind}s").replace("{kind}", kind)
        found[name.replace("{table}", f"{kind}s")] = chosen
    return found


def _without_header(text: str) -> str:
    """The statement without its header, which would be sent to the server and its statistics."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("--"))
