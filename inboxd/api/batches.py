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

from inboxd.api.groups import BatchBuilder, Continued, Groups, Node, check_many
from inboxd.api.options import SendOptions


class Batch(Continued, Node):
    """Commands that belong together; `id` names the batch. Made by `ctx.batch`."""

    __slots__ = ("_builder",)

    def __init__(self, groups: Groups, builder: BatchBuilder) -> None:
        """Build the batch `builder`; handlers call `ctx.batch` instead."""
        super().__init__(groups, builder.batch_id)
        self._builder = builder

    def __repr__(self) -> str:
        return f"<Batch {self._builder.name or self.id}: {len(self)} members>"

    def __len__(self) -> int:
        """The number of members added here."""
        return self._builder.size

    def __bool__(self) -> bool:
        """True, also for an empty batch."""
        return True

    def add(self, command: object, **options: Unpack[SendOptions]) -> UUID:
        """Send a command as a member, with the options of `ctx.send`. Returns its id."""
        return self._groups.send(command, options, self._builder)

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
            "batch", name, type=batch_type, parent=self._builder, tenant=tenant
        )
        return filled(self._groups, inner, commands, options)


def filled(
    groups: Groups, builder: BatchBuilder, commands: Iterable[object], options: SendOptions
) -> Batch:
    """Build a batch with its first members."""
    check_many(commands)
    batch = Batch(groups, builder)
    for command in commands:
        groups.send(command, options, builder)
    return batch
