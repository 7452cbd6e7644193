"""The declaration of an action on the screens: its role, confirmation, operation and result."""

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
_DIGITS: Final = 18
NO_FORM: Final = "this is not a form of the screens: open the page again"


# The icon and the colour of a result.
Look = Literal["good", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Sentence:
    """The words for placeholders may be sentences themselves."""

    text: str
    words: Mapping[str, object] = field(default_factory=dict)


def tell(text: str, /, **words: object) -> Sentence:
    """A test finds all texts by the name of this function."""
    return Sentence(text, words)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedField:
    """hint: shown in an empty field. note: shown beside it. choices: pairs of value and text."""

    name: str
    title: Sentence
    kind: Literal["text", "number", "json", "choice", "check", "hidden"] = "text"
    value: str = ""
    hint: str = ""
    note: Sentence | None = None
    choices: Sequence[tuple[str, Sentence]] = ()
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A confirmation. follows: consequences of what it `does`. doubts: obstacles and warnings.

    seen: a mark of the shown state; if it has changed since, the action is refused. final: it
    cannot be undone. parts: further values for its own template.
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
    """about: the query of the address, which names the target. typed: the fields of the form.

    once: the uuid of this form. seen: the mark in the form; None: it is not sent yet.
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
        return {"actor": self.visitor.actor, "reason": self.reason}

    @property
    def expected(self) -> ExpectedRows:
        return ExpectedRows(self.visitor.tenants, self.seen)

    @property
    def seen_at(self) -> datetime | None:
        """The mark of the shown state, if it is a time. Raises UsageError."""
        if not self.seen:
            return None
        try:
            at = datetime.fromisoformat(self.seen)
            return at.replace(tzinfo=at.tzinfo or UTC).astimezone(UTC)
        except (ValueError, OverflowError):
            raise UsageError(NO_FORM) from None

    @property
    def seen_number(self) -> int:
        """The mark of the shown state, as a number. Raises UsageError."""
        seen = self.seen or ""
        if not (seen.isascii() and seen.isdecimal() and len(seen) <= _DIGITS):
            raise UsageError(NO_FORM)
        return int(seen)

    def named(self, name: str) -> str:
        """A required value of the address. Raises UsageError."""
        if not (value := self.about.get(name)):
            raise UsageError(f"{name} is missing in the address: open the action from a page")
        return value


@dataclass(frozen=True, slots=True)
class ActionTold:
    """path: the page that is opened next. secret: only the answer to the form shows it.

    look: "warning": the action is done in part, or with a doubt; "error": it failed.
    """

    path: str
    sentence: Sentence
    look: Look = "good"
    secret: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenAction:
    """GET asks for confirmation, POST acts. `do` returns None to ask again, with the input kept.

    for_tenants: it only touches rows of the visitor's tenants. reserved: its name, if it needs
    rights in the database that the role of operators lacks.
    """

    path: str
    ask: Callable[[ActionVisit], Awaitable[Question]]
    do: Callable[[ActionVisit], Awaitable[ActionTold | None]]
    back: Callable[[QueryParams], str]
    role: Role = Role.OPERATOR
    for_tenants: bool = False
    reserved: ReservedAction | None = None
    most_body: int = _MOST_BODY


def due_field(value: str, *, required: bool = False) -> AskedField:
    """A time without a zone is UTC."""
    return AskedField(
        name="at",
        title=tell("Due"),
        hint="now, 2h, 2026-01-31T08:00",
        note=tell("A time without a zone is UTC."),
        value=value,
        required=required,
    )


def way_back(about: QueryParams, otherwise: str) -> str:
    to = about.get("to")
    return safe(to) if to else otherwise
