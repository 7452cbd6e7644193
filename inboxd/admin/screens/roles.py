"""Who visits the screens, and what a visitor may see and do.

Promises that a role includes all that those before it may.
"""

from dataclasses import dataclass
from enum import IntEnum


class Role(IntEnum):
    """What a visitor may: look; look at payloads too; act on rows; and on all that match."""

    VIEWER = 1
    READER = 2
    OPERATOR = 3
    ADMIN = 4


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who visits. name: None, where nobody logs in. actor: as the audit has it.

    tenants: of which tenants rows may be seen; None: of all. signed_in: by the screens' own form,
    so that they can sign out.
    """

    name: str | None
    role: Role
    actor: str
    tenants: frozenset[str] | None = None
    signed_in: bool = False

    def may(self, role: Role) -> bool:
        """Whether the visitor has this role, or one that includes it."""
        return self.role >= role
