"""Payloads for comparison, before a command is replayed with another payload.

Both texts are PostgreSQL's form of the JSON, so that they differ only where stored payloads do.
"""

from typing import Final

from inboxd.errors import Conflict, NotFound, UsageError
from inboxd.model.json_text import check_json, indented
from inboxd.store import payloads as store
from inboxd.store.session import Session

MOST: Final = 256 * 1024
_SIZE: Final = f"{MOST // 1024} kB"


async def payload_text(session: Session, id: int) -> str:
    """Raises NotFound, DatabaseError without rights, Conflict for more than `MOST` bytes."""
    session.refuse_withheld("payloads")
    row = await store.of_command(session, id, MOST)
    if row is None:
        raise NotFound(f"there is no unsettled command {id} any more: look it up again")
    if row["text"] is None:
        raise Conflict(
            f"the payload of command {id} has more than {_SIZE}, the limit of a form: replay it at "
            f"a terminal with `inboxd commands replay-with {id} @payload.json`"
        )
    return indented(row["text"], MOST)


async def payload_as_stored(session: Session, text: str, command: str = "replay-with") -> str:
    """command: for larger payloads; the error names it. Raises UsageError."""
    found = await store.as_stored(session, check_json(text), MOST)
    if found is None:
        raise UsageError(
            f"the stored payload would have more than {_SIZE}, the limit of a form: use "
            f"`inboxd commands {command}` at a terminal"
        )
    return indented(found, MOST)
