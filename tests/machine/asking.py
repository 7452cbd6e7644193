"""Asks why a row is not running, in whatever state the machine has reached.

Owns the model's answer, and the property: the named causes are ended one after the other, in a
transaction that is rolled back. Once all have ended, a real claim takes the row; while any one is
left, no claim does, and that cause is named.
Known limit: causes inside a worker are left out; these, pauses, breakers, limits and lines are in
tests/store/test_waiting_states.py.
"""

from collections.abc import Collection
from typing import Any, Final
from uuid import uuid4

from inboxd import operations
from inboxd.model.lane import Lane
from inboxd.settings import Settings
from inboxd.store import commands, events, workers
from tests.machine.model import Item
from tests.machine.world import World, one

_SETTINGS: Final = Settings.model_validate({"database": {"dsn": "postgresql:///x"}})
_TYPES: Final = ("a", "b")
# Causes of a row that nothing holds.
_PLACES: Final = frozenset({"next", "first"})
_MOST: Final = 1_000


class Asking(World):
    """The world, and an operator who asks."""

    def ask(self, name: Any, pick: int) -> None:
        """The answer is the model's: exactly the causes that hold the row."""
        rows = [i for i in self.table(name).values() if not (i.settled or i.held)]
        if not rows or self._all_are_alone():
            return
        item = one(rows, pick, lambda item: len(self._blockers(name, item)))
        self.site.run(self._try(name, item, self._blockers(name, item)))

    def _all_are_alone(self) -> bool:
        """Whether each running worker runs a command that must be the only one."""
        alone = {
            i.worker for i in self.model.commands.values() if i.status == "running" and i.alone
        }
        running = {id_ for id_, state in self.model.workers.items() if state == "running"}
        return bool(running) and running <= alone

    def _blockers(self, name: str, item: Item) -> set[str]:
        """The names of the causes that hold a row; no worker of the machine declares a handler."""
        if item.status in ("failed", "running"):
            return {"dead" if item.status == "failed" else "running"}
        found = {"unserved" if "running" in self.model.workers.values() else "nobody"}
        if not self.model.is_due(item):
            found.add("suspect" if item.crashes and name == "events" else "due")
        if item.crashes and name == "commands":
            found.add("suspect")
        return found

    async def _try(self, name: Any, item: Item, expected: Collection[str]) -> None:
        transaction = self.site.operator.transaction()
        await transaction.start()
        try:
            named = await self._named(name, item)
            assert named == expected, f"causes of {item}: {named}, not {expected}"
            if item.status == "pending":
                for left in (*sorted(expected), None):
                    await self._end_all_but(left, name, item, expected)
        finally:
            await transaction.rollback()

    async def _end_all_but(
        self, left: str | None, name: Any, item: Item, expected: Collection[str]
    ) -> None:
        attempt = self.site.operator.transaction()
        await attempt.start()
        try:
            for each in expected:
                if each != left:
                    await self._remedy(each, name, item)
            named = await self._named(name, item)
            claimed = await self._is_claimed(name, item)
            if left is None:
                assert named <= _PLACES, f"causes of {item}, which nothing holds: {named}"
                assert claimed, f"{expected} have ended, but {item} is not claimed"
            else:
                assert named == {left}, f"causes of {item}, which {left} holds: {named}"
                assert not claimed, f"{left} holds {item}, but it is claimed"
        finally:
            await attempt.rollback()

    async def _named(self, name: Any, item: Item) -> set[str]:
        found = await operations.why(self.site.operator, _SETTINGS, name, item.id)
        return {each["cause"] for each in found["causes"]}

    async def _remedy(self, cause: str, name: str, item: Item) -> None:
        """End a cause as docs/why.md says."""
        connection = self.site.operator.connection
        if cause in ("nobody", "unserved"):
            topics = tuple(("default", type_) for type_ in _TYPES)
            me = workers.WorkerIdentity(
                *(uuid4(), "with handlers", "host", 1, "0", _TYPES, _TYPES, (), "same"),
                subscriptions=topics,
            )
            await workers.join(self.site.operator, me)
        elif cause == "due" or name == "events":
            past = f"update inboxd.{name} set run_at = now() - interval '1 minute' where id = $1"
            await connection.execute(past, item.id)
        else:
            await connection.execute(
                "update inboxd.commands set crashes = 0, suspect_group = null, lone_crashes = null"
                " where id = $1",
                item.id,
            )

    async def _is_claimed(self, name: str, item: Item) -> bool:
        """Whether a claim of a worker with handlers takes it."""
        session = self.site.operator
        worker = await session.connection.fetchval(
            "select id from inboxd.workers where state = 'running' and $1 = any (commands) limit 1",
            item.lane[1],
        )
        if worker is None:
            return False
        lane = Lane(item.lane)
        if name == "events":
            taken = [each["id"] for each in await events.claim(session, [lane], _MOST)]
        else:
            room = {str(item.lane[0]): _MOST}
            claimed = await commands.claim(session, worker, room, [lane], _MOST)
            taken = [each["id"] for each in claimed]
        return item.id in taken
