"""The SQL statements, one a file in `sql/`, rendered when they are loaded.

Owns the reading of the files; nothing else in inboxd holds SQL. There is a folder for each subject,
but a statement is asked for by its name alone, which no other has in any folder. Promises that a
name that does not exist fails when the store is built, not at the first use, and that nothing
depends on a session's `search_path`.

A file whose name has `{table}` is two statements, one for events and one for commands:
`count_{table}.sql` is `count_events` and `count_commands`. In its text `{table}` is that word,
`{kind}` is `event` or `command`, and of `{topic or queue}` events have the first, commands the
other. In the same way one whose name has `{resolution}` is a statement for each table of
statistics (minutes, hours, days), and one with `{span}` for each of the longer ones; `{unit}` is
then `minute`, `hour` or `day`. Known limit: besides, only `{schema}` and the lists of columns
(`inboxd.store.columns`) are replaced; values are parameters.

What not every reader may see is marked: `{content text: errors -> -1 ->> 'error'}` is that
expression, or, in statements for a session that may not read contents, a NULL of that type. So one
statement serves all roles, and a role's statement never names a column that is not granted to it.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Literal

from inboxd.errors import UsageError
from inboxd.store.columns import written_out
from inboxd.store.files import sql_folder

# content: payloads, headers, bodies, results, progress, and errors, which may quote those, also of
# what cannot be read or spooled; URLs.
# secret: what endpoints are signed with.
Kept = Literal["content", "secret"]

# What stands in a name's braces, beside `{table}`: the words for it, each with its unit.
_RESOLUTIONS = {"minutes": "minute", "hours": "hour", "days": "day"}
_LONGER = {name: unit for name, unit in _RESOLUTIONS.items() if name != "minutes"}
_EACH = {"{resolution}": _RESOLUTIONS, "{span}": _LONGER}
_ONE_OR_OTHER = re.compile(r"\{([^{}]+) or ([^{}]+)\}")
_KEPT = re.compile(r"\{(content|secret) (\w+): ([^{}]+)\}")


class Statements(Mapping[str, str]):
    """The statements of one schema, by file name without folder and `.sql`.

    withheld: what whoever runs them may not read.
    """

    def __init__(self, schema: str, withheld: Collection[Kept] = ()) -> None:
        self.schema = schema
        self._texts = {
            name: _without(withheld, render(text, schema)) for name, text in _files().items()
        }

    def __getitem__(self, name: str) -> str:
        return self._texts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


class NotedStatements(Statements):
    """Statements that note which of them were asked for, each once, in the order of the first."""

    def __init__(self, of: Statements) -> None:
        """Those of the same session."""
        self.schema, self._texts = of.schema, of._texts  # noqa: SLF001 - of the same class
        self.asked: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        """The statement of that name."""
        text = super().__getitem__(name)
        self.asked.setdefault(name, text)
        return text


def shared(name: str) -> str:
    """A statement that names nothing of ours, the same in every schema."""
    return _files()[name]


def render(text: str, schema: str) -> str:
    """Put the schema's name into SQL.

    The settings checked it; it is checked again, since it is the one thing that is no parameter.
    """
    if not schema.isidentifier() or not schema.isascii() or schema != schema.lower():
        raise UsageError(
            f"{schema!r} is not a valid schema name: use lower-case letters, digits and underscores"
        )
    return text.replace("{schema}", schema)


def _without(withheld: Collection[Kept], text: str) -> str:
    return _KEPT.sub(lambda found: f"NULL::{found[2]}" if found[1] in withheld else found[3], text)


@cache
def _files() -> dict[str, str]:
    texts: dict[str, str] = {}
    for file in sql_folder().glob("*/*.sql"):
        text = _without_header(file.read_text(encoding="utf-8"))
        texts |= _written_for_each(file.stem, text)
    return {name: written_out(text) for name, text in texts.items()}


def _written_for_each(name: str, text: str) -> dict[str, str]:
    """The statements of a file, by their names."""
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
    """The statement for events, and that for commands."""
    found = {}
    for place, kind in enumerate(("event", "command"), start=1):
        chosen = _ONE_OR_OTHER.sub(rf"\{place}", text)
        chosen = chosen.replace("{table}", f"{kind}s").replace("{kind}", kind)
        found[name.replace("{table}", f"{kind}s")] = chosen
    return found


def _without_header(text: str) -> str:
    """The statement alone: comments would travel to the server and into its statistics."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("--"))
