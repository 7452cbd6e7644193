"""What a row of `make chaos` tells its handler to do."""

from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from pydantic import BaseModel


class Script(BaseModel):
    """What a handler is to do, in this order; `n` numbers all that one parent sends.

    `line` is the ordering key. `say` is of what follows a batch. `dedup` repeats the dedup key.
    """

    n: int = 0
    line: str = ""
    say: str = ""
    dedup: str = ""
    heals: UUID | None = None  # refused until an operator has noted this token
    until: datetime | None = None  # deferred until then
    fails: int = 0  # raises at so many attempts
    hangs: int = 0  # runs into its timeout at so many attempts, after those
    refuses: bool = False
    wait: float = 0  # seconds
    children: list["Child"] = []
    group: "Group | None" = None
    steps: list[tuple[str, "Script", list[str]]] = []  # as (name, what, "a" or "a failed")
    follows: "Group | None" = None  # what follows the steps
    sends: int = 0  # commands of `group` or `steps`; those of `children` are not counted here
    traces: Path | None = None  # for handlers without a connection: a file
    expect: str = "succeeded"  # or "failed", or "maybe": it may turn out not to be needed
    pad: str = ""
    at: datetime | None = None  # of a schedule's run


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
        """What it says."""
        return self.script.model_dump(mode="json", exclude_unset=True)

    @property
    def options(self) -> dict[str, Any]:
        """How a command is sent."""
        return {
            "type": self.type,
            "queue": self.queue,
            "priority": self.priority,
            "delay": self.delay,
            "ordering_key": self.script.line or None,
        }


class Group(BaseModel):
    """A batch; `after`: what is told then, otherwise and finally."""

    members: list[Child] = []
    inner: list["Group"] = []
    after: list[Child] = []
