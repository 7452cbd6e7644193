"""Names for people: of types as they were declared, of tenants as a query of the settings has them.

Owns that query's bounds: it runs in a transaction that reads only, for a bounded time, and no more
rows are taken than were allowed. Promises that it leaves its session as it was, whatever it does.
Known limit: it runs as the role of the session, which needs the right to read what it reads.
"""

from collections.abc import Collection
from contextlib import suppress

import asyncpg

from inboxd.errors import DatabaseError
from inboxd.model.masking import redact
from inboxd.store.connections import LOST, Row
from inboxd.store.session import Session

_MOST_ROWS = 10_000
_COLUMNS = 2  # the tenant, its name


async def declared(
    session: Session, kind: str | None = None, types: Collection[str] | None = None
) -> list[Row]:
    """Kind, type, title and description of those types that have been declared; None: of all."""
    wanted = None if types is None else sorted(set(types))
    return await session.fetch("list_labels", kind, wanted)


async def names(
    session: Session, query: str, timeout_ms: int, ids: Collection[str]
) -> dict[str, str]:
    """What the query answers: ids to names; of other ids too, where it takes no parameter.

    A query with one parameter gets the ids as text[]. Raises DatabaseError in words to act on.
    """
    transaction = session.connection.transaction(readonly=True)
    try:
        await transaction.start()
        await session.fetchval("bound_statements", f"{timeout_ms}ms")
        prepared = await session.connection.prepare(query)
        if len(prepared.get_attributes()) != _COLUMNS:
            raise DatabaseError("it does not return two columns, the tenant and its name")
        given = [sorted(ids)] if prepared.get_parameters() else []
        cursor = await prepared.cursor(*given)
        rows = await cursor.fetch(_MOST_ROWS)
        return {str(id): str(name) for id, name in rows if id is not None and name is not None}
    except asyncpg.PostgresError as error:
        # (Not `explain`, whose remedies are for tables of this schema.)
        raise DatabaseError(redact(str(error)).partition("\n")[0]) from error
    except (asyncpg.InterfaceError, ValueError, TypeError, OverflowError) as error:
        said = f"{type(error).__name__} in what it is asked with, or answers"
        raise DatabaseError(said) from error
    finally:
        with suppress(asyncpg.PostgresError, *LOST):
            await transaction.rollback()
