"""Declarations of a worker that joins: queues, retry rules, schedules, topics.

Owns their order, also without a worker (`inboxd declare`). Promises that producers' inserts are
completed by the newest worker's declarations, and that earlier events move to their topics (ADR
18): an intake is announced, in a committed transaction, before the declaration is made. Known
limit: a worker's declarations stay after its end, for a week or until another worker declares
something else.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from typing import Any

from anyio import move_on_after, to_thread

from inboxd.daemon.declared_endpoints import declared_endpoints
from inboxd.errors import Conflict
from inboxd.registry.registry import Registry
from inboxd.registry.retry_rules import declared_rules
from inboxd.registry.type_labels import type_labels
from inboxd.registry.type_secrets import type_secrets
from inboxd.settings import Settings
from inboxd.store import breakers, endpoints, intakes, schedules, topics, workers
from inboxd.store.connections import Connection
from inboxd.store.intakes import Intake
from inboxd.store.listing import COUNTED
from inboxd.store.statements import Statements
from inboxd.store.topics import ChangedMode

# An announcement is valid for ten seconds: a slower declaration announces again.
_TRIES = 3

# Time limit for withdrawing the announcement of a failed declaration.
_WITHDRAWAL_SECONDS = 2.0

Begin = Callable[[], AbstractAsyncContextManager[object]]
DeclaredByName = Mapping[tuple[str, str], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class WorkerDeclaration:
    """Everything that a worker with these settings and plugins declares."""

    sql: Statements
    settings: Settings
    registry: Registry

    async def announce(self, connection: Connection) -> list[Intake]:
        """Announce the events that will be moved into topics."""
        found = self.registry
        return await intakes.announce(
            connection, self.sql, found.topics.values(), found.subscriptions
        )

    async def make(self, connection: Connection) -> list[ChangedMode]:
        """Write all declarations; returns the topics whose mode has changed."""
        commands = self.registry.commands
        queues = {type_: handler.queue for type_, handler in commands.items()}
        rules = declared_rules(self.settings, self.registry)
        labels, secrets = type_labels(self.registry), type_secrets(self.registry)
        await workers.declare(connection, self.sql, queues, rules, labels, secrets)
        await breakers.declare(connection, self.sql, self.registry.breaker_uses)
        await schedules.declare(connection, self.sql, self.registry.to_send)
        found = await to_thread.run_sync(declared_endpoints, self.settings.endpoints)
        await endpoints.declare(connection, self.sql, found)
        return await topics.declare(
            connection, self.sql, self.registry.topics.values(), self.registry.subscriptions
        )


async def declare(
    connection: Connection, begin: Begin, declaration: WorkerDeclaration
) -> list[ChangedMode]:
    """Publish a declaration in two transactions; `begin` begins one on the connection."""
    for _ in range(_TRIES):
        async with begin():
            announced = await declaration.announce(connection)
        try:
            async with begin():
                if await intakes.hold(connection, declaration.sql, announced):
                    changed = await declaration.make(connection)
                    await intakes.open_(connection, declaration.sql, announced)
                    return changed
        except BaseException:
            await _withdraw(connection, begin, declaration, announced)
            raise
    raise Conflict("the announcement of the declaration expired again and again: try once more")


async def _withdraw(
    connection: Connection,
    begin: Begin,
    declaration: WorkerDeclaration,
    announced: Sequence[Intake],
) -> None:
    """Stop holding the topics; if that fails, the announcement expires."""
    with move_on_after(_WITHDRAWAL_SECONDS, shield=True), suppress(Exception):
        async with begin():
            await intakes.withdraw(connection, declaration.sql, announced)


@dataclass(frozen=True, slots=True)
class DeclarationPreview:
    """The changes that a declaration would make. waiting: events of a type for these topics."""

    before: DeclaredByName
    after: DeclaredByName
    waiting: Sequence[tuple[str, int, Sequence[str]]]


async def preview(connection: Connection, declaration: WorkerDeclaration) -> DeclarationPreview:
    """Make a declaration, read its effects, and undo it.

    At most `listing.COUNTED` events are counted per type.
    """
    sql = declaration.sql
    undone = connection.transaction(isolation="read_committed")
    await undone.start()
    try:
        before = await workers.declared(connection, sql)
        announced = await declaration.announce(connection)
        await declaration.make(connection)
        after = await workers.declared(connection, sql)
        waiting = []
        for origin, type_ in dict.fromkeys((each.origin, each.type) for each in announced):
            to = [each.topic for each in announced if each[:2] == (origin, type_)]
            counts = await intakes.count(connection, sql, origin, type_, COUNTED)
            waiting += [(found, count, to) for found, count in counts.items()]
    finally:
        await undone.rollback()
    return DeclarationPreview(before, after, waiting)
