"""The visitor of the screens, and the roles; a role includes the rights of lower ones."""

from dataclasses import dataclass
from enum import IntEnum


class Role(IntEnum):
    """VIEWER sees pages; READER, contents too; OPERATOR acts on rows; ADMIN, on all that match."""

    VIEWER = 1
    READER = 2
    OPERATOR = 3
    ADMIN = 4


@dataclass(frozen=True, slots=True)
class Visitor:
    """A visitor. name: None, where there is no sign-in. actor: the name in the audit.

    tenants: those whose rows the visitor may see; None: all. signed_in: at the screens' own
    sign-in, so that the visitor can sign out.
    """

    name: str | None
    role: Role
    actor: str
    tenants: frozenset[str] | None = None
    signed_in: bool = False

    def may(self, role: Role) -> bool:
        return self.role >= role
