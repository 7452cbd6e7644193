"""A command that expires between its lease and its start: its handler never begins."""

from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest

from inboxd.commands import attempts, leases
from inboxd.commands.attempts import CommandAttempts
from inboxd.commands.ended import CANCELLED, Expired
from inboxd.commands.leases import Expiries
from inboxd.engine.execution import HandlerStopped

pytestmark = pytest.mark.anyio


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(leases, "monotonic", clock)
    monkeypatch.setattr(attempts, "watch", lambda *_: ())
    return clock


def row(id_: int, expires_in: float | None) -> Any:
    none = ("ordering_key", "correlation_id", "late", "payload", "tenant")
    zero = ("attempts", "schema_version", "body_id")
    names = {"type": "a", "queue": "q", "origin_kind": "api", "origin_id": None}
    known = {**dict.fromkeys(none), **dict.fromkeys(zero, 0), **names}
    return known | {"id": id_, "fence": 1, "command_id": id_, "expires_in": expires_in}


class Attempts:
    def __init__(self) -> None:
        parts: Any = MagicMock()
        parts.breakers.falls_back.return_value = None
        self.executed = parts.executions.run = AsyncMock(side_effect=HandlerStopped(CANCELLED))
        self.expiries, self.bodies = Expiries(), MagicMock(take=AsyncMock(return_value="null"))
        self.turn = MagicMock(take=AsyncMock())
        self.attempts = CommandAttempts(parts, self.bodies, self.expiries, MagicMock())

    async def make(self, leased: Any) -> None:
        handler: Any = MagicMock(schema_version=0, event_type=None, payload_class=None)
        await self.attempts.make(
            *(MagicMock(), handler, leased, MagicMock(), 9.0, lambda: None),
            self.turn,
        )


@pytest.mark.parametrize("left", [5.0, 0.0, -1.0])
async def test_expired_command_never_begins(clock: Clock, left: float) -> None:
    made, leased = Attempts(), row(1, left)
    made.expiries.lease([row(2, None), leased])
    clock.now += max(left, 0.0)
    with pytest.raises(Expired):
        await made.make(leased)
    made.bodies.take.assert_not_awaited()
    made.executed.assert_not_awaited()


async def test_command_that_expires_while_its_payload_is_read_spends_no_turn(clock: Clock) -> None:
    made, leased = Attempts(), row(1, 5.0)
    made.expiries.lease([leased])

    async def take(_: object) -> str:
        clock.now += 5
        return "null"

    made.bodies.take = take
    with pytest.raises(Expired):
        await made.make(leased)
    made.turn.take.assert_not_awaited()
    made.executed.assert_not_awaited()


async def test_command_begins_until_it_expires(clock: Clock) -> None:
    made, leased = Attempts(), row(1, 5.0)
    made.expiries.lease([leased])
    clock.now += 4.9
    with pytest.raises(HandlerStopped):
        await made.make(leased)
    made.executed.assert_awaited_once()


async def test_time_of_an_ended_lease_is_forgotten(clock: Clock) -> None:
    """The row may be claimed again, with another attempt."""
    made, leased = Attempts(), row(1, 5.0)
    made.expiries.lease([leased])
    made.expiries.end(leased)
    clock.now += 9
    with pytest.raises(HandlerStopped):
        await made.make(leased)
