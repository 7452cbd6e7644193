"""What producers write: scripts for the handlers of `inboxd_testplugin.chaos`, from a seed.

Owns the mixture. Promises: what a row should come to (`expect`) and which commands it should send
stand in the row itself, so that the verdict needs no memory of the run.
"""

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

Table = Literal["event", "command"]

_EVENTS = {"fact": 45, "quick": 30, "thread_fact": 5, "later": 10, "bad_fact": 2}
_COMMANDS = {"act": 45, "light": 30, "thread": 8, "process": 2, "bad_act": 2, "bad_light": 1}
_QUEUES = (None, None, "narrow", "wide", "light")
_FOR_EVER = 99
_GENERATIONS = 2
# Above what the bodies table takes over, and not to be compressed below it.
_LARGE = 4_500


@dataclass(frozen=True, slots=True)
class Draft:
    """One row that a producer writes."""

    table: Table
    key: UUID
    type: str
    script: dict[str, Any]
    run_at: datetime | None
    queue: str | None
    priority: int


class Load:
    """The rows of one producer, one after the other."""

    def __init__(self, seed: str, traces: Path) -> None:
        """Draw from `seed`; handlers without a connection leave their traces in `traces`."""
        self.chance = random.Random(seed)
        self._traces = str(traces)

    def draft(self, table: Table) -> Draft:
        """One more row."""
        return self._event() if table == "event" else self._command()

    def _event(self) -> Draft:
        type_ = self._pick(_EVENTS)
        longest = 0.3 if type_ == "later" else 0.02
        return Draft(
            table="event",
            key=UUID(int=self.chance.getrandbits(128), version=4),
            type=f"chaos.{type_}",
            script=self._script(type_, longest, _GENERATIONS),
            run_at=self._soon(),
            queue=None,
            priority=0,
        )

    def _command(self) -> Draft:
        type_ = self._pick(_COMMANDS)
        return Draft(
            table="command",
            key=UUID(int=self.chance.getrandbits(128), version=4),
            type=f"chaos.{type_}",
            script=self._script(type_, 0.3, _GENERATIONS - 1),
            run_at=self._soon(),
            queue=self._queue(type_),
            priority=self.chance.choice((0, 0, 0, -5, 5)),
        )

    def _script(self, type_: str, longest: float, generations: int) -> dict[str, Any]:
        script: dict[str, Any] = {}
        if self._once_in(3):
            # Some are always in flight, for what stops or kills a worker.
            slow = type_ not in _EVENTS and self._once_in(4)
            script["wait"] = round(self.chance.uniform(0, 1.5 if slow else longest), 3)
        if self._once_in(8):
            script["pad"] = self.chance.randbytes(_LARGE).hex()
        if type_.endswith("light"):
            script["traces"] = self._traces
        if type_.startswith("bad_"):
            worst = {"refuses": True} if self._once_in(2) else {"fails": _FOR_EVER}
            return script | worst | {"expect": "failed"}
        if type_ == "process":
            return script
        script |= self._mishap(type_)
        if generations and type_ != "later" and self._once_in(2):
            count = self.chance.choice((1, 1, 2, 3, 8))
            script["children"] = [self._child(n, generations - 1) for n in range(count)]
        return script

    def _mishap(self, type_: str) -> dict[str, Any]:
        if self._once_in(12):
            return {"fails": self.chance.randint(1, 3)}
        if self._once_in(15):
            return {"until": self._later(0.2, 3).isoformat()}
        # A thread cannot be stopped; an event that hangs holds up its page.
        if "thread" not in type_ and self._once_in(300 if type_ in _EVENTS else 60):
            return {"hangs": 1}
        return {}

    def _child(self, n: int, generations: int) -> dict[str, Any]:
        type_ = self._pick(_COMMANDS)
        return {
            "type": f"chaos.{type_}",
            "script": {"n": n, **self._script(type_, 0.1, generations)},
            "queue": self._queue(type_),
            "priority": self.chance.choice((0, 0, -5, 5)),
            "delay": "300ms" if self._once_in(10) else None,
        }

    def _queue(self, type_: str) -> str | None:
        return None if type_ in ("thread", "process") else self.chance.choice(_QUEUES)

    def _soon(self) -> datetime | None:
        return self._later(0, 4) if self._once_in(6) else None

    def _later(self, least: float, most: float) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.chance.uniform(least, most))

    def _pick(self, weights: dict[str, int]) -> str:
        return self.chance.choices(list(weights), list(weights.values()))[0]

    def _once_in(self, times: int) -> bool:
        return self.chance.randrange(times) == 0
