"""Row level security on inboxd's tables: it hides rows from a worker without an error.

Known limit: a policy with a condition other than `true` counts as hiding some rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from inboxd.errors import SchemaError
from inboxd.store.session import Session

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class SecuredTable:
    """from_me, from_owner, from_roles: from which it hides rows. remedy: SQL that switches it off.

    Functions have the owner's privileges. is_unknown: this role is exempt, inboxd's do not exist.
    """

    name: str
    remedy: str
    from_me: bool
    from_owner: bool
    from_roles: Sequence[str]
    is_unknown: bool


async def secured(session: Session) -> list[SecuredTable]:
    return [SecuredTable(**row) for row in await session.fetch("secured_tables")]


async def hidden(session: Session) -> str | None:
    """Why this role, or a function that it calls, does not see all rows; None if they do."""
    reasons = [reason for reason, _ in blinding(await secured(session))]
    return f"row level security hides {', and '.join(reasons)}" if reasons else None


async def check(session: Session) -> None:
    """Raise SchemaError if rows are hidden from this role: a worker would find no work."""
    if reason := await hidden(session):
        raise SchemaError(f"{reason}; see: inboxd doctor")


def blinding(tables: Sequence[SecuredTable]) -> list[tuple[str, list[SecuredTable]]]:
    mine = [each for each in tables if each.from_me]
    owners = [each for each in tables if each.from_owner and not each.from_me]
    found = (
        (f"rows of {these(mine)} from this role", mine),
        (f"rows of {these(owners)} from the owner, whose privileges functions have", owners),
    )
    return [(reason, some) for reason, some in found if some]


def these(tables: Sequence[SecuredTable]) -> str:
    return named([each.name for each in tables])


def named(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
