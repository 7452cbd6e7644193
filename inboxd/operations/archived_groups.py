"""Archives failure groups: lists leave them out until they grow.

Promises: a group is archived only as the operator has seen it, and its rows stay dead letters.
Known limit: a row that failed again after a replay in place is not newer, so it brings the group
back only if the group has more rows now.
"""

from collections.abc import Sequence
from typing import Final

from inboxd.errors import Conflict, UsageError
from inboxd.operations.failures import Group, failures, whole_name
from inboxd.store import operations as store
from inboxd.store.session import Session

# More rows than any count.
_UNCOUNTED: Final = 2**62


async def archive_group(
    session: Session,
    group: str,
    *,
    actor: str,
    reason: str | None = None,
    seen: str | None = None,
) -> list[Group]:
    """Raises NotFound, UsageError; Conflict if it is archived, or not as `seen` (by `seen_as`)."""
    async with session.transaction():
        found = await failures(session, group)
        if seen is not None and seen != seen_as(found):
            raise Conflict(
                f"the failure group {group!r} has grown or shrunk since it was shown; nothing was "
                "changed: look at it again"
            )
        if all(each.archived for each in found):
            raise Conflict(
                f"the failure group {group!r} is archived already; it comes back when it grows"
            )
        await store.forget_archived(session)
        for each in found:
            await store.archive(
                *(session, each.kind, _name(each), actor, reason),
                # A count that stopped depends on the number of groups: it may rise by itself.
                count=_UNCOUNTED if each.at_least else each.count,
                last_id=each.last_id,
            )
        target, count = f"failures {_name(found[0])}", sum(each.count for each in found)
        await store.record(session, actor, "archive", target, reason, count)
    return found


async def unarchive_group(
    session: Session, group: str, *, actor: str, reason: str | None = None
) -> list[Group]:
    """Raises as `archive_group`; Conflict if it is not archived."""
    async with session.transaction():
        name = await whole_name(session, group)
        if not await store.unarchive(session, name):
            raise Conflict(f"the failure group {group!r} is not archived")
        found = await failures(session, name)
        count = sum(each.count for each in found)
        await store.record(session, actor, "unarchive", f"failures {name}", reason, count)
    return found


def seen_as(groups: Sequence[Group]) -> str:
    """The text changes when a group gets more, fewer or newer rows."""
    return " ".join(f"{each.kind}/{each.count}/{each.last_id}" for each in groups)


def _name(group: Group) -> str:
    if group.fingerprint is None:
        raise UsageError("dead letters without a group cannot be archived: replay or dismiss them")
    return group.fingerprint
