"""Failure groups are archived: lists leave them out, until they grow.

Promises: what is archived is the group as somebody has seen it, and each archiving is in the audit
with the number of its dead letters; the rows are not touched, and stay dead letters.
Known limit: a row that was replayed in its own place and failed alike again is not newer, so that
it brings a group back only where that has more rows by it.
*See:* `operations/failures.py`, which tells what is archived.
"""

from collections.abc import Sequence

from inboxd.errors import Conflict, UsageError
from inboxd.operations.failures import Group, failures, whole_name
from inboxd.store import operations as store
from inboxd.store.session import Session


async def archive_group(
    session: Session,
    group: str,
    *,
    actor: str,
    reason: str | None = None,
    seen: str | None = None,
) -> list[Group]:
    """Let lists leave a group out until it grows; returns what it was: of events, of commands.

    seen: as `seen_as` had it when it was shown. Raises NotFound and UsageError as `failures` does,
    Conflict when it is archived already, or has changed since it was shown.
    """
    async with session.connection.transaction():
        found = await failures(session, group)
        if seen is not None and seen != seen_as(found):
            raise Conflict(
                f"the failure group {group!r} has grown or shrunk since it was shown; nothing was "
                "changed: look again how things are"
            )
        if all(each.archived for each in found):
            raise Conflict(
                f"the failure group {group!r} is archived already; it comes back when it grows"
            )
        await store.forget_archived(session)
        for each in found:
            await store.archive(
                *(session, each.kind, _name(each), actor, reason),
                count=each.count,
                last_id=each.last_id,
            )
        target, count = f"failures {_name(found[0])}", sum(each.count for each in found)
        await store.record(session, actor, "archive", target, reason, count)
    return found


async def unarchive_group(
    session: Session, group: str, *, actor: str, reason: str | None = None
) -> list[Group]:
    """Let lists have a group again. Raises as `archive_group`, Conflict when it is not archived."""
    async with session.connection.transaction():
        name = await whole_name(session, group)
        if not await store.unarchive(session, name):
            raise Conflict(f"the failure group {group!r} is not archived")
        found = await failures(session, name)
        count = sum(each.count for each in found)
        await store.record(session, actor, "unarchive", f"failures {name}", reason, count)
    return found


def seen_as(groups: Sequence[Group]) -> str:
    """What stands for how groups are: another whenever one has more rows, fewer, or newer ones."""
    return " ".join(f"{each.kind}/{each.count}/{each.last_id}" for each in groups)


def _name(group: Group) -> str:
    if group.fingerprint is None:
        raise UsageError("what failed without a group cannot be archived: replay or dismiss it")
    return group.fingerprint
