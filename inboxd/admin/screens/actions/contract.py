"""What an action on the screens is: who may, what is asked first, what is done, what is told then.

Promises that a declaration is all there is to an action: the way to it, the confirmation, what is
refused and what is told are the same for all of them (`acting.py`).
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal
from uuid import UUID

from starlette.datastructures import QueryParams

from inboxd.admin.screens.access.wanted import safe
from inboxd.admin.screens.host_spool import HostSpool
from inboxd.admin.screens.roles import Role, Visitor
from inboxd.errors import UsageError
from inboxd.operations import ExpectedRows, ReservedAction
from inboxd.settings import Settings
from inboxd.store.session import Session

_MOST_BODY: Final = 16 * 1024
NO_FORM: Final = "this is not a form of the screens: open the page again"


@dataclass(frozen=True, slots=True)
class Sentence:
    """A text of the catalogues, and the words that it leaves open."""

    text: str
    words: Mapping[str, object] = field(default_factory=dict)


def tell(text: str, /, **words: object) -> Sentence:
    """A sentence; a test finds its text by this name."""
    return Sentence(text, words)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedField:
    """What is typed or chosen besides the reason. choices: value and text of each."""

    name: str
    title: Sentence
    kind: Literal["text", "number", "json", "choice", "check", "hidden"] = "text"
    value: str = ""
    hint: str = ""
    choices: Sequence[tuple[str, Sentence]] = ()
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What somebody confirms.

    does: what the action does. follows: what follows from it. doubts: what stands in its way.
    rows: some of those that it is done to. seen: what stands for the state that is shown, by which
    the action is refused once that has changed. final: there is no way back. parts: what a template
    of its own shows besides.
    """

    title: Sentence
    button: Sentence
    does: Sequence[Sentence]
    follows: Sequence[Sentence] = ()
    doubts: Sequence[Sentence] = ()
    fields: Sequence[AskedField] = ()
    rows: Sequence[Mapping[str, Any]] = ()
    seen: str = ""
    command: str = ""
    final: bool = False
    template: str = "confirm.html"
    parts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionVisit:
    """One request for an action.

    about: what it is done to, from the address. typed: what the form has, nothing before it is
    sent. once: of this form, as no other; seen: as the form had it; None: it is not sent yet.
    spool: of this host, where the process has one.
    """

    session: Session
    settings: Settings
    visitor: Visitor
    about: QueryParams
    typed: Mapping[str, str]
    once: UUID
    reason: str | None = None
    seen: str | None = None
    spool: HostSpool | None = None

    @property
    def by(self) -> dict[str, Any]:
        """Who acts and why, as operations want it."""
        return {"actor": self.visitor.actor, "reason": self.reason}

    @property
    def expected(self) -> ExpectedRows:
        """Whose rows may be acted on, and as what they were seen."""
        return ExpectedRows(self.visitor.tenants, self.seen)

    @property
    def seen_at(self) -> datetime | None:
        """The time that stands for the state that was shown, if any does. Raises UsageError."""
        if not self.seen:
            return None
        try:
            at = datetime.fromisoformat(self.seen)
            return at.replace(tzinfo=at.tzinfo or UTC).astimezone(UTC)
        except (ValueError, OverflowError):
            raise UsageError(NO_FORM) from None

    def named(self, name: str) -> str:
        """A value of the address that has to be there. Raises UsageError."""
        if not (value := self.about.get(name)):
            raise UsageError(f"the address names no {name}: open the action from a page")
        return value


@dataclass(frozen=True, slots=True)
class ActionTold:
    """What came of an action. path: the page of the thing, to which the visitor is led."""

    path: str
    sentence: Sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenAction:
    """An action of the screens.

    path: where GET asks and POST does. do: what is told then; None: ask again, with what was typed.
    back: the page from which it comes, by its address.
    for_tenants: whether it keeps to the rows of who may see certain tenants.
    reserved: its name, if it needs more of the database than an operator's role there may do.
    """

    path: str
    ask: Callable[[ActionVisit], Awaitable[Question]]
    do: Callable[[ActionVisit], Awaitable[ActionTold | None]]
    back: Callable[[QueryParams], str]
    role: Role = Role.OPERATOR
    for_tenants: bool = False
    reserved: ReservedAction | None = None
    most_body: int = _MOST_BODY


def way_back(about: QueryParams, otherwise: str) -> str:
    """The page that an address leads back to, or else another."""
    to = about.get("to")
    return safe(to) if to else otherwise
