"""Prepared statements of a session: the driver's, and those of a handler's own SQL.

Promises that those which a handler prepares or deallocates never affect later users, and that a
session with invalid ones prepares again. Known limit: a handler's SQL is recognised by its words;
if a function prepares or deallocates, the next user's row runs again (`VOID`).
"""

import re
from functools import lru_cache

from inboxd.store.connections import Connection
from inboxd.store.statements import shared

_OWN = re.compile(r"\b(?:prepare|execute|deallocate)\b", re.IGNORECASE)

DEALLOCATE = shared("deallocate_session") + "; "


@lru_cache(maxsize=1024)
def has_words(query: str) -> bool:
    """Whether a text may prepare, run or deallocate named statements in SQL."""
    return _OWN.search(query) is not None


def forget(connection: Connection) -> None:
    """Make the driver prepare each statement again at its next use in this session."""
    connection._drop_local_statement_cache()  # type: ignore[attr-defined]  # noqa: SLF001 - the driver has no other way
