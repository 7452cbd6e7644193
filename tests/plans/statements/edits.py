"""Cases by which operators archive failure groups, and edit a waiting command."""

from inboxd.store import operations
from inboxd.store.session import Session
from tests.plans.filling import Known
from tests.plans.statements.case import Case


async def _edited(session: Session, known: Known) -> None:
    (id_, *_) = known.of("commands few")
    await session.fetch("edited_command", id_)  # the row need not be there
    await operations.edit_payload(session, id_, "{}")


async def _archived(session: Session, known: Known) -> None:
    """Archive two groups, and list them."""
    del known
    for kind in ("event", "command"):
        await operations.archive(session, kind, "f", "me", None, count=1, last_id=1)
    await operations.forget_archived(session)
    await operations.unarchive(session, "f")


EDITS: dict[str, tuple[Case, tuple[str, ...]]] = {
    "keep_archived, forget_archived, remove_archived": (
        _archived,
        ("commands_failures", "events_failures"),
    ),
    "edited_command, edit_payload": (_edited, ("commands_pkey",)),
}
