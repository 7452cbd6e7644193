"""Prepared statements of a session: the driver's, and those of a handler's own SQL.

Owns what happens when they are no longer valid. Promises that statements which a handler prepares
or deallocates never affect later users of the session, and that a session with invalid prepared
statements is recognised by the error's code and prepares again. Known limit: a handler's SQL is
recognised by the words in its text; if a database function prepares or deallocates, the next user
of the session gets the error, and its row runs again (`VOID` of `store/connections.py`).
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
