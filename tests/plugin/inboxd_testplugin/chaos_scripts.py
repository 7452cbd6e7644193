"""The payloads of `make chaos`: scripts for handlers."""

from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from pydantic import BaseModel


class Script(BaseModel):
    """The actions of a handler, in this order; `n` numbers the rows that one parent sends.

    line: the ordering key. say: the kind of a continuation. dedup: the dedup key.
    """

    n: int = 0
    line: str = ""
    say: str = ""
    dedup: str = ""
    heals: UUID | None = None  # rejected until an operator has noted this token
    until: datetime | None = None  # deferred until then
    fails: int = 0  # raises in this many attempts
    hangs: int = 0  # exceeds its timeout in this many attempts after those
    refuses: bool = False
    wait: float = 0  # seconds
    children: list["Child"] = []
    group: "Group | None" = None
    steps: list[tuple[str, "Script", list[str]]] = []  # as (name, script, ["a" or "a failed", ...])
    follows: "Group | None" = None  # continuations of the steps
    sends: int = 0  # commands of `group` or `steps`, without those of `children`
    traces: Path | None = None  # a file, for handlers without a connection
    expect: str = "succeeded"  # or "failed", or "maybe": a step may be skipped
    pad: str = ""
    at: datetime | None = None  # the time of a schedule's run


class Child(BaseModel):
    """A command that a handler sends, or an event that it emits."""

    type: str
    script: Script
    event: bool = False
    queue: str | None = None
    priority: int = 0
    delay: str | None = None

    @property
    def payload(self) -> dict[str, Any]:
        return self.script.model_dump(mode="json", exclude_unset=True)

    @property
    def options(self) -> dict[str, Any]:
        """The keyword arguments of `ctx.send`."""
        return {
            "type": self.type,
            "queue": self.queue,
            "priority": self.priority,
            "delay": self.delay,
            "ordering_key": self.script.line or None,
        }


class Group(BaseModel):
    """A batch. after: its continuations then, otherwise and finally."""

    members: list[Child] = []
    inner: list["Group"] = []
    after: list[Child] = []
