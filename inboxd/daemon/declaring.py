"""Declarations of a worker that joins: queues, retry rules, schedules, topics.

Earlier events move to their topics (ADR 18): an intake is announced, in a committed transaction,
before the declaration is made. Known limit: a worker's declarations stay after its end, for a week
or until another worker declares something else.
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
from inboxd.store.intakes import Intake
from inboxd.store.listing import COUNTED
from inboxd.store.session import Session
from inboxd.store.topics import ChangedMode

# An announcement is valid for ten seconds: a slower declaration announces again.
_TRIES = 3

# Time limit for withdrawing the announcement of a failed declaration.
_WITHDRAWAL_SECONDS = 2.0

Begin = Callable[[], AbstractAsyncContextManager[object]]
DeclaredByName = Mapping[tuple[str, str], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class WorkerDeclaration:
    settings: Settings
    registry: Registry

    async def announce(self, session: Session) -> list[Intake]:
        """Announce the events that will be moved into topics."""
        found = self.registry
        return await intakes.announce(session, found.topics.values(), found.subscriptions)

    async def make(self, session: Session) -> list[ChangedMode]:
        """Write all declarations; returns the topics whose mode has changed."""
        commands = self.registry.commands
        queues = {type_: handler.queue for type_, handler in commands.items()}
        rules = declared_rules(self.settings, self.registry)
        labels, secrets = type_labels(self.registry), type_secrets(self.registry)
        await workers.declare(session, queues, rules, labels, secrets)
        await breakers.declare(session, self.registry.breaker_uses)
        await schedules.declare(session, self.registry.to_send)
        found = await to_thread.run_sync(declared_endpoints, self.settings.endpoints)
        await endpoints.declare(session, found)
        return await topics.declare(
            session, self.registry.topics.values(), self.registry.subscriptions
        )


async def declare(
    session: Session, begin: Begin, declaration: WorkerDeclaration
) -> list[ChangedMode]:
    """Publish a declaration in two transactions; `begin` begins one in the session."""
    for _ in range(_TRIES):
        async with begin():
            announced = await declaration.announce(session)
        try:
            async with begin():
                if await intakes.hold(session, announced):
                    changed = await declaration.make(session)
                    await intakes.open_(session, announced)
                    return changed
        except BaseException:
            await _withdraw(session, begin, announced)
            raise
    raise Conflict("the announcement of the declaration expired again and again: try once more")


async def _withdraw(session: Session, begin: Begin, announced: Sequence[Intake]) -> None:
    """Stop holding the topics; if that fails, the announcement expires."""
    with move_on_after(_WITHDRAWAL_SECONDS, shield=True), suppress(Exception):
        async with begin():
            await intakes.withdraw(session, announced)


@dataclass(frozen=True, slots=True)
class DeclarationPreview:
    """The changes that a declaration would make. waiting: events of a type for these topics."""

    before: DeclaredByName
    after: DeclaredByName
    waiting: Sequence[tuple[str, int, Sequence[str]]]


async def preview(session: Session, declaration: WorkerDeclaration) -> DeclarationPreview:
    """Undo the declaration. At most `listing.COUNTED` events are counted per type."""
    undone = session.transaction(isolation="read_committed")
    await undone.start()
    try:
        before = await workers.declared(session)
        announced = await declaration.announce(session)
        await declaration.make(session)
        after = await workers.declared(session)
        waiting = []
        for origin, type_ in dict.fromkeys((each.origin, each.type) for each in announced):
            to = [each.topic for each in announced if each[:2] == (origin, type_)]
            counts = await intakes.count(session, origin, type_, COUNTED)
            waiting += [(found, count, to) for found, count in counts.items()]
    finally:
        await undone.rollback()
    return DeclarationPreview(before, after, waiting)
