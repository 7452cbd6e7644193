"""Erases webhooks whose body contains a text: for data that no column names.

Body, headers and address are erased, and so are dead letters with a body that could not be read;
events that were made from a body stay. Promises: the audit has only a hash of the text; running the
command again completes an interrupted erasure. Known limits: JSON that writes the text with escapes
does not match; receipts in a spool are not found.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from inboxd.errors import Conflict, UsageError
from inboxd.features.erasure import store
from inboxd.features.erasure.store import MatchedReceipt
from inboxd.model.lifecycle import Status
from inboxd.model.wording import plural
from inboxd.operations.bulk import Terms
from inboxd.operations.erase import errors_after, require_rights
from inboxd.store import census, wakeups
from inboxd.store import operations as actions
from inboxd.store.erase import erase_bodies
from inboxd.store.session import Session

_PAGE = 500
# Nearly every body contains a shorter text.
_LEAST_BYTES = 3


@dataclass(slots=True)
class ErasedReceipts:
    """left: receipts whose events were replayed."""

    receipts: int = 0
    dead_letters: int = 0
    left: int = 0


def text_of(given: str) -> bytes:
    """Raises UsageError if it is too short."""
    text = given.encode("utf-8", "surrogateescape")
    if len(text.strip()) < _LEAST_BYTES:
        raise UsageError(
            f"the text has less than {_LEAST_BYTES} bytes, so nearly every webhook matches: give a "
            "longer one, such as a name or an address."
        )
    return text


async def matching(session: Session, text: bytes) -> Sequence[MatchedReceipt]:
    return await store.matching(session, text)


async def erase_matching(session: Session, text: bytes, terms: Terms) -> ErasedReceipts:
    """Raises Conflict while events of a receipt are held; DatabaseError without the rights."""
    await require_rights(session)
    found, erased = await store.matching(session, text), ErasedReceipts()
    if not found:
        return erased
    if held := await store.held_among(session, [each.id for each in found]):
        raise Conflict(
            f"the events of {plural(held, 'matching receipt')} are held, since their source is "
            "paused; nothing was changed: resume the source first"
        )
    target = f"receipts matching sha256:{hashlib.sha256(text).hexdigest()}"
    entry = await actions.record(session, terms.actor, "erase", target, terms.reason, 0)
    for first in range(0, len(found), _PAGE):
        page = found[first : first + _PAGE]
        before = erased.receipts
        async with session.transaction():
            await _erase(session, page, erased)
            await actions.record_more(session, entry, erased.receipts - before)
    return erased


async def _erase(session: Session, page: Sequence[MatchedReceipt], erased: ErasedReceipts) -> None:
    """Receipts whose events were replayed stay, so that the next run finds them."""
    named = [event for each in page for event in each.broken]
    rows = await actions.lock(session, "events", [], named)
    alive = {row["uuid"] for row in rows if row["status"] != Status.FAILED}
    erased.left += len(page)
    page = [each for each in page if alive.isdisjoint(each.broken)]
    erased.left -= len(page)
    events: list[UUID] = [event for each in page for event in each.broken]
    dead = [row["id"] for row in rows if row["uuid"] in set(events)]
    await actions.dismiss(session, "events", dead)
    settled = await store.erase_broken(session, events, errors_after())
    for part in settled["parts"]:
        # A census of that day may have counted these rows already, or may see them again.
        await census.begin(session, part, "events_history")
    await erase_bodies(session, [each.id for each in page])
    await wakeups.notify(session, "events")
    erased.receipts += len(page)
    erased.dead_letters += settled["rows"]
