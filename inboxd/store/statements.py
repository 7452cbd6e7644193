"""The SQL statements, one a file in `sql/`, rendered when they are loaded.

Owns the reading of the files; nothing else in inboxd holds SQL. There is a folder for each subject,
but a statement is asked for by its name alone, which no other has in any folder. Promises that a
name that does not exist fails when the store is built, not at the first use, and that nothing
depends on a session's `search_path`. Known limit: only `{schema}` and the lists of columns
(`inboxd.store.columns`) are replaced; values are parameters.
"""

from collections.abc import Iterator, Mapping
from functools import cache

from inboxd.errors import UsageError
from inboxd.store.columns import written_out
from inboxd.store.files import sql_folder


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
            f"{schema!r} is no schema name: use lower-case letters, digits and underscores"
        )
    return text.replace("{schema}", schema)


@cache
def _files() -> dict[str, str]:
    return {
        file.stem: written_out(_without_header(file.read_text(encoding="utf-8")))
        for file in sql_folder().glob("*/*.sql")
    }


def _without_header(text: str) -> str:
    """The statement alone: comments would travel to the server and into its statistics."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("--"))
