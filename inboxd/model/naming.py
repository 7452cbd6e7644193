"""Payload classes that name their event or command type.

They need no import of inboxd, so services and plugins may share them. A subclass inherits names.
"""

from typing import Any, ClassVar, NamedTuple, Protocol

from inboxd.errors import UsageError
from inboxd.model import checks


class EventPayload(Protocol):
    """Its class names the type: `inboxd_event: ClassVar[str] = "order.paid"`, `inboxd_version`."""

    inboxd_event: ClassVar[str]


class CommandPayload(Protocol):
    """Its class names the type: `inboxd_command: ClassVar[str] = "shop.pay"`, `inboxd_version`."""

    inboxd_command: ClassVar[str]


class Named(NamedTuple):
    type: str
    schema_version: int


def event_of(payload: type[object]) -> Named | None:
    """The event type that a class names, or None. Raises UsageError for an invalid one."""
    return _named(payload, "inboxd_event")


def command_of(payload: type[object]) -> Named | None:
    """The command type that a class names, or None. Raises UsageError for an invalid one."""
    return _named(payload, "inboxd_command")


def _named(payload: type[object], attribute: str) -> Named | None:
    type_: Any = getattr(payload, attribute, None)
    # The default of a field is not an attribute of the class; pydantic hides it.
    fields = getattr(payload, "__pydantic_fields__", ())
    for name in (attribute,) if type_ is None else ("inboxd_version",):
        if name in fields:
            raise UsageError(
                f"{payload.__qualname__}.{name} is a field of the payload: annotate it as "
                "ClassVar, so that it belongs to the class."
            )
    if type_ is None:
        return None
    version: Any = getattr(payload, "inboxd_version", 1)
    for name, problem in (
        (attribute, checks.name(type_)),
        ("inboxd_version", checks.count(version)),
    ):
        if problem:
            raise UsageError(f"{payload.__qualname__}.{name} {problem}.")
    return Named(type_, version)
