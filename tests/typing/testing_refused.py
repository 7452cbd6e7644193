"""Mistakes in tests of a plugin, each marked with the code of what mypy --strict says. Not run."""

from pydantic import BaseModel

from inboxd import Handlers
from inboxd.testing import TestInbox, run_command

handlers = Handlers("school")


class Payload(BaseModel):
    """It names no type."""


class NoConnection:
    """It has none of the methods."""


async def test_with_a_fake() -> None:
    await run_command(handlers, "a.b", {}, connection=NoConnection())  # E: arg-type


def test_with_an_inbox(inbox: TestInbox) -> None:
    inbox.emit(Payload())  # E: call-overload
    inbox.emit("a.b", {}, dedup=1)  # E: call-overload
    inbox.drain(timeout=30)  # E: arg-type
    inbox.assert_sent(Payload())  # E: arg-type
    inbox.travel()
