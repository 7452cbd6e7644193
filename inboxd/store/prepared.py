"""Statements that a session keeps prepared: the driver's, and those of a handler's own SQL.

Owns what is done when they do not fit any more. Promises that what a handler prepares or
deallocates meets nobody after it, and that a session whose prepared statements are void is known by
the error's code and prepares anew. Known limit: SQL of a handler is known by the words in its text;
a function of the database that prepares or deallocates is found by whoever meets it next, and that
row runs again (`VOID` of `store/connections.py`).
"""

import re
from functools import lru_cache

from inboxd.store.connections import Connection
from inboxd.store.statements import shared

_OWN = re.compile(r"\b(?:prepare|execute|deallocate)\b", re.IGNORECASE)

DEALLOCATE = shared("deallocate_session") + "; "


@lru_cache(maxsize=1024)
def has_words(query: str) -> bool:
    """Whether a text may prepare, run or deallocate statements by name, as SQL does it."""
    return _OWN.search(query) is not None


def forget(connection: Connection) -> None:
    """Let the driver prepare each statement anew at its next use in this session."""
    connection._drop_local_statement_cache()  # type: ignore[attr-defined]  # noqa: SLF001 - the driver has no other way
