"""A batch as a handler builds it: members, nested batches, continuations.

Owns `Batch`. Promises: all of it is written with the settlement of the handler's row, or not at
all; a continuation is sent with its batch and waits in the database, so it cannot be forgotten; an
empty batch succeeds at once.
Known limit: continuations are given where the batch is built, not later.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack
from uuid import UUID

from inboxd.api.groups import Continued, Groups, Making, Node, check_many
from inboxd.api.options import SendOptions


class Batch(Continued, Node):
    """Commands that belong together; `id` names the batch. Made by `ctx.batch`."""

    __slots__ = ("_making",)

    def __init__(self, groups: Groups, making: Making) -> None:
        """Build the batch `making`; handlers call `ctx.batch` instead."""
        super().__init__(groups, making.batch_id)
        self._making = making

    def __repr__(self) -> str:
        return f"<Batch {self._making.name or self.id}: {len(self)} members>"

    def __len__(self) -> int:
        """The number of members added here."""
        return self._making.size

    def __bool__(self) -> bool:
        """True, also for an empty batch."""
        return True

    def add(self, command: object, **options: Unpack[SendOptions]) -> UUID:
        """Send a command as a member, with the options of `ctx.send`. Returns its id."""
        return self._groups.send(command, options, self._making)

    def batch(
        self,
        commands: Iterable[object] = (),
        *,
        name: str | None = None,
        batch_type: str | None = None,
        **options: Unpack[SendOptions],
    ) -> Batch:
        """Make a batch that is a member of this one; the options are for each of its commands.

        Its continuations are members of this batch as well, so this one ends after them.
        """
        tenant = options.get("tenant")
        inner = self._groups.make(
            "batch", name, type=batch_type, parent=self._making, tenant=tenant
        )
        return filled(self._groups, inner, commands, options)


def filled(
    groups: Groups, making: Making, commands: Iterable[object], options: SendOptions
) -> Batch:
    """Build a batch with its first members."""
    check_many(commands)
    batch = Batch(groups, making)
    for command in commands:
        groups.send(command, options, making)
    return batch
