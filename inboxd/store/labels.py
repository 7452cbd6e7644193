"""Names for people: declared titles of types, and tenants' names from a query in the settings.

The query only reads, within bounds, by the session's rights, and leaves its settings alone.
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
    wanted = None if types is None else sorted(set(types))
    return await session.fetch("list_labels", kind, wanted)


async def names(
    session: Session, query: str, timeout_ms: int, ids: Collection[str]
) -> dict[str, str]:
    """By tenant id; a query may name others, too. It gets ids as text[]. Raises DatabaseError."""
    transaction = session.transaction(readonly=True)
    try:
        await transaction.start()
        await session.fetchval("bound_statements", f"{timeout_ms}ms")
        prepared = await session.connection.prepare(query)
        if len(prepared.get_attributes()) != _COLUMNS:
            raise DatabaseError("it must return two columns, the tenant and its name")
        given = [sorted(ids)] if prepared.get_parameters() else []
        cursor = await prepared.cursor(*given)
        rows = await cursor.fetch(_MOST_ROWS)
        return {str(id): str(name) for id, name in rows if id is not None and name is not None}
    except asyncpg.PostgresError as error:
        # Not `explain`: its remedies are for tables of this schema.
        raise DatabaseError(redact(str(error)).partition("\n")[0]) from error
    except (asyncpg.InterfaceError, ValueError, TypeError, OverflowError) as error:
        said = f"{type(error).__name__} in its parameters or its answer"
        raise DatabaseError(said) from error
    finally:
        with suppress(asyncpg.PostgresError, *LOST):
            await transaction.rollback()
