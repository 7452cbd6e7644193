"""The payload of a command to look at before it is replayed with another, and that other one.

Promises that both are texts of PostgreSQL's, so that they differ where what is stored would, and in
nothing else; and that none has more than `MOST` bytes, however large what is stored is.
*See:* `rows.py`, which replays.
"""

from typing import Final

from inboxd.errors import Conflict, NotFound, UsageError
from inboxd.model.json_text import check_json, indented
from inboxd.store import payloads as store
from inboxd.store.session import Session

MOST: Final = 256 * 1024
_SIZE: Final = f"{MOST // 1024} kB"


async def payload_text(session: Session, id: int) -> str:
    """The payload of an unsettled command, indented.

    Raises DatabaseError for a role that may not read it, NotFound, and Conflict for a larger one.
    """
    session.refuse_withheld("payloads")
    row = await store.of_command(session, id, MOST)
    if row is None:
        raise NotFound(f"there is no command {id} any more: look again how things are")
    if row["text"] is None:
        raise Conflict(
            f"the payload of command {id} has more than {_SIZE}, which is more than a form holds: "
            f"replay it on a terminal, `inboxd commands replay-with {id} @payload.json`"
        )
    return indented(row["text"], MOST)


async def payload_as_stored(session: Session, text: str, command: str = "replay-with") -> str:
    """Another payload, JSON text, as it would be stored, indented.

    command: which takes any size on a terminal. Raises UsageError.
    """
    found = await store.as_stored(session, check_json(text), MOST)
    if found is None:
        raise UsageError(
            f"the payload would have more than {_SIZE} as it is stored, which is more than a form "
            f"holds: use a terminal, `inboxd commands {command}`"
        )
    return indented(found, MOST)
