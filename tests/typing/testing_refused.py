"""Mistakes in tests of a plugin, each with mypy --strict's error code. Not run."""

from pydantic import BaseModel

from inboxd import Handlers
from inboxd.testing import TestInbox, run_command

handlers = Handlers("school")


class Payload(BaseModel):
    """A payload whose class names no type."""


class NoConnection:
    """A class without the methods of a connection."""


async def test_with_a_fake() -> None:
    await run_command(handlers, "a.b", {}, connection=NoConnection())  # E: arg-type


def test_with_an_inbox(inbox: TestInbox) -> None:
    inbox.emit(Payload())  # E: call-overload
    inbox.emit("a.b", {}, dedup=1)  # E: call-overload
    inbox.drain(timeout=30)  # E: arg-type
    inbox.assert_sent(Payload())  # E: arg-type
    inbox.travel()
