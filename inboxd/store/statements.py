"""The SQL statements, one a file in `sql/`, rendered when they are loaded.

Owns the reading of the files; nothing else in inboxd holds SQL. There is a folder for each subject,
but a statement is asked for by its name alone, which no other has in any folder. Promises that a
name that does not exist fails when the store is built, not at the first use, and that nothing
depends on a session's `search_path`.

A file whose name has `{table}` is two statements, one for events and one for commands:
`count_{table}.sql` is `count_events` and `count_commands`. In its text `{table}` is that word,
`{kind}` is `event` or `command`, and of `{topic or queue}` events have the first, commands the
other. Known limit: besides, only `{schema}` and the lists of columns (`inboxd.store.columns`) are
replaced; values are parameters.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache

from inboxd.errors import UsageError
from inboxd.store.columns import written_out
from inboxd.store.files import sql_folder

_ONE_OR_OTHER = re.compile(r"\{([^{}]+) or ([^{}]+)\}")


class Statements(Mapping[str, str]):
    """The statements of one schema, by file name without folder and `.sql`."""

    def __init__(self, schema: str) -> None:
        self.schema = schema
        self._texts = {name: render(text, schema) for name, text in _files().items()}

    def __getitem__(self, name: str) -> str:
        return self._texts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


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


@cache
def _files() -> dict[str, str]:
    texts: dict[str, str] = {}
    for file in sql_folder().glob("*/*.sql"):
        text = _without_header(file.read_text(encoding="utf-8"))
        texts |= _of_both(file.stem, text) if "{table}" in file.stem else {file.stem: text}
    return {name: written_out(text) for name, text in texts.items()}


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
