"""The rows that producers write: scripts for the handlers of `inboxd_testplugin.chaos`, by seed.

    drafts = Load("7 producer", traces).drafts("event", most=12)

Owns the mixture. Promises: a row's script has its expected end (`expect`) and the commands that it
should send, so that the verdict needs no memory of the run.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

from tests.chaos.fleet import LIMITED

# "once": events with dedup keys; "sole": commands with unique keys.
Table = Literal["event", "command", "batch", "once", "sole"]
OnConflict = Literal["keep", "replace", "reject"]

_EVENTS = {
    "fact": 35,
    "quick": 25,
    "thread_fact": 5,
    "later": 10,
    "bad_fact": 2,
    "of_lines": 25,
    "of_skips": 10,
    "of_chunks": 30,
    "group": 5,
}
_MEMBERS = {"act": 45, "light": 30, "thread": 8, "scarce": 4, "paced": 4}
_COMMANDS = {**_MEMBERS, "process": 2, "bad_act": 2, "bad_light": 1, "keyed": 12}
# Types that run in the order of a key, with the number of keys.
_LINES = {"of_lines": 12, "of_skips": 8, "of_chunks": 6, "keyed": 10}
# Types that an operator can heal: their handlers look whether it is mended.
_HEALED = ("fact", "act", *_LINES, *LIMITED)
_QUEUES = (None, None, "narrow", "wide", "light")
_CONDITIONS = ("", "", " failed", " finished")
_SAYINGS = {"then": "succeeded", "otherwise": "maybe", "finally": "succeeded"}
_FOR_EVER = 99
_GENERATIONS = 2
# Large enough for the bodies table, and not compressible below its bound.
_LARGE = 4_500
_DEDUP_KEYS = 150
_UNIQUE_KEYS = 12


@dataclass(frozen=True, slots=True)
class Draft:
    """One row that a producer writes; `expect` overrides the expectation of its script."""

    table: Literal["event", "command"]
    key: UUID
    type: str
    script: dict[str, Any]
    run_at: datetime | None = None
    queue: str | None = None
    priority: int = 0
    source: str | None = None
    unique_key: str | None = None
    on_conflict: OnConflict = "keep"
    expect: str | None = None

    @property
    def ordering_key(self) -> str | None:
        """A command's ordering key; an event's is found by its topic."""
        return (self.script.get("line") or None) if self.table == "command" else None

    @property
    def dedup_key(self) -> str | None:
        """The key of an event that must happen once, however often it is sent."""
        return self.script.get("dedup")


class Load:
    """The rows of one producer, one after the other."""

    def __init__(self, seed: str, traces: Path) -> None:
        """Draw from `seed`; handlers without a connection write their traces to `traces`."""
        self.chance = random.Random(seed)
        self._traces = str(traces)

    def drafts(self, table: Table, most: int) -> list[Draft]:
        """Some more rows; for a batch, the commands for then, otherwise and finally come first."""
        some = range(self.chance.randint(1, most))
        if table == "batch":
            told = (self._command(child) for child in self._told(count()))
            return [*told, *(self._command(self._child(0, 0, _MEMBERS)) for _ in some)]
        if table == "sole":
            return [self._sole() for _ in some]
        if table == "once":
            return [self._once() for _ in some]
        if table == "event":
            return [self._event() for _ in some]
        return [self._command(self._child(0, _GENERATIONS - 1, _COMMANDS)) for _ in some]

    # --------------------------------------------------------------------------- rows of tables

    def _event(self) -> Draft:
        type_ = self._pick(_EVENTS)
        longest = 0.3 if type_ == "later" else 0.02
        return Draft(
            table="event",
            key=self._uuid(),
            type=f"chaos.{type_}",
            script=self._script(type_, longest, _GENERATIONS),
            run_at=None if type_ in _LINES else self._soon(),
        )

    def _once(self) -> Draft:
        """A dedup key always has the same payload, except a few that contradict."""
        source, number = self.chance.choice(("shop", "bank")), self.chance.randrange(_DEDUP_KEYS)
        script: dict[str, Any] = {"dedup": f"{source} {number}", "fails": int(number % 9 == 0)}
        if self._once_in(25):
            script["n"] = self.chance.randint(1, 3)
        return Draft("event", self._uuid(), "chaos.once", script, source=source)

    def _command(self, child: dict[str, Any]) -> Draft:
        type_ = child["type"].removeprefix("chaos.")
        return Draft(
            table="command",
            key=self._uuid(),
            type=child["type"],
            script=child["script"],
            run_at=None if type_ in (*_LINES, "told") else self._soon(),
            queue=child["queue"],
            priority=child["priority"],
        )

    def _sole(self) -> Draft:
        script = {"wait": round(self.chance.uniform(0, 0.3), 3), "expect": "maybe"}
        return Draft(
            table="command",
            key=self._uuid(),
            type="chaos.sole",
            queue="chaos.sole",
            script=script | self._mishap("sole"),
            unique_key=f"sole {self.chance.randrange(_UNIQUE_KEYS)}",
            on_conflict=self.chance.choice(("keep", "keep", "replace", "replace", "reject")),
        )

    # --------------------------------------------------------------------------------- scripts

    def _script(self, type_: str, longest: float, generations: int) -> dict[str, Any]:
        script = self._about(type_, longest)
        if type_.startswith("bad_"):
            worst = {"refuses": True} if self._once_in(2) else {"fails": _FOR_EVER}
            return script | worst | {"expect": "failed"}
        if type_ == "process":
            return script
        script |= self._mishap(type_)
        if type_ == "of_chunks":
            spurned = "heals" not in script and self._once_in(25)
            return script | (
                {"refuses": True, "expect": "failed"}
                if spurned
                else {"n": self.chance.randint(0, 1)}
            )
        if type_ == "group" or (type_ == "act" and generations and self._once_in(25)):
            return script | self._together()
        if generations and type_ not in ("later", "of_chunks") and self._once_in(2):
            script["children"] = [
                self._emitted(n, generations - 1)
                if self._once_in(5)
                else self._child(n, generations - 1, _COMMANDS)
                for n in range(self.chance.choice((1, 1, 2, 3, 8)))
            ]
        return script

    def _about(self, type_: str, longest: float) -> dict[str, Any]:
        """The part of a script that succeeds."""
        script: dict[str, Any] = {}
        if type_ in _LINES:
            script["line"] = f"k{self.chance.randrange(_LINES[type_])}"
        if type_ in LIMITED:
            script["wait"] = round(self.chance.uniform(0, 0.15), 3)
        elif self._once_in(3):
            # Some commands are always running when a worker is stopped or killed.
            slow = type_ not in (*_EVENTS, *_LINES) and self._once_in(4)
            script["wait"] = round(self.chance.uniform(0, 1.5 if slow else longest), 3)
        if self._once_in(8):
            script["pad"] = self.chance.randbytes(_LARGE).hex()
        if type_.endswith("light"):
            script["traces"] = self._traces
        return script

    def _mishap(self, type_: str) -> dict[str, Any]:
        if self._once_in(12):
            return {"fails": self.chance.randint(1, 3)}
        # An event of a chunk is not deferred alone.
        if type_ != "of_chunks" and self._once_in(15):
            return {"until": self._later(0.2, 1 if type_ in _LINES else 3).isoformat()}
        # A thread cannot be stopped; an event that hangs delays its page.
        if "thread" not in type_ and self._once_in(300 if type_ in _EVENTS else 60):
            return {"hangs": 1}
        if type_ in _HEALED and self._once_in(25):
            return {"heals": str(self._uuid())}
        return {}

    def _child(self, n: int, generations: int, types: dict[str, int]) -> dict[str, Any]:
        type_ = self._pick(types)
        return {
            "type": f"chaos.{type_}",
            "script": {"n": n, **self._script(type_, 0.1, generations)},
            "queue": self._queue(type_),
            "priority": self.chance.choice((0, 0, -5, 5)),
            "delay": "300ms" if type_ not in _LINES and self._once_in(10) else None,
        }

    def _emitted(self, n: int, generations: int) -> dict[str, Any]:
        type_ = self._pick(_EVENTS)
        script = {**self._script(type_, 0.02, generations), "n": n}
        return {"type": f"chaos.{type_}", "script": script, "event": True}

    # --------------------------------------------------------------------- batches and workflows

    def _together(self) -> dict[str, Any]:
        """A batch or a workflow; everything that the handler sends has a number of its own."""
        numbers = count()
        if self._once_in(3):
            script = {"steps": self._steps(numbers), "follows": {"after": self._told(numbers)}}
        else:
            script = {"group": self._group(numbers, inner=self.chance.choice((0, 0, 1, 2)))}
        return script | {"sends": next(numbers)}

    def _group(self, numbers: Iterator[int], inner: int) -> dict[str, Any]:
        size = self.chance.choice((0, 1, 2, 4, 8))
        return {
            "members": [self._child(next(numbers), 0, _MEMBERS) for _ in range(size)],
            "inner": [self._group(numbers, 0) for _ in range(inner)],
            "after": self._told(numbers),
        }

    def _told(self, numbers: Iterator[int]) -> list[dict[str, Any]]:
        return [
            {
                "type": "chaos.told",
                "script": {"n": next(numbers), "say": say, "expect": expect},
                "queue": None,
                "priority": 0,
                "delay": None,
            }
            for say, expect in _SAYINGS.items()
        ]

    def _steps(self, numbers: Iterator[int]) -> list[Any]:
        """A step that waits for a failure may be skipped, and then also steps that wait for it."""
        steps: list[Any] = []
        unsure: set[str] = set()
        for place in range(self.chance.randint(1, 6)):
            name, before = f"s{place}", [step[0] for step in steps]
            needed = self.chance.sample(before, min(len(before), self.chance.randint(0, 2)))
            waits = [each + self.chance.choice(_CONDITIONS) for each in needed]
            if unsure & set(needed) or any(each.endswith("failed") for each in waits):
                unsure.add(name)
            if self._once_in(3):
                what: dict[str, Any] = {"group": self._group(numbers, self.chance.choice((0, 1)))}
            else:
                what = {"n": next(numbers), **self._script("act", 0.1, 0)}
            if name in unsure:
                _may_be_skipped(what)
            steps.append([name, what, waits])
        return steps

    # ------------------------------------------------------------------------------------ draws

    def _queue(self, type_: str) -> str | None:
        if type_ in ("thread", "process"):
            return None
        # Explicit, so that it is set even before the first worker has declared it.
        own = type_ in (*LIMITED, *_LINES)
        return f"chaos.{type_}" if own else self.chance.choice(_QUEUES)

    def _soon(self) -> datetime | None:
        return self._later(0, 4) if self._once_in(6) else None

    def _later(self, least: float, most: float) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.chance.uniform(least, most))

    def _uuid(self) -> UUID:
        return UUID(int=self.chance.getrandbits(128), version=4)

    def _pick(self, weights: dict[str, int]) -> str:
        return self.chance.choices(list(weights), list(weights.values()))[0]

    def _once_in(self, times: int) -> bool:
        return self.chance.randrange(times) == 0


def _may_be_skipped(script: dict[str, Any]) -> None:
    """Mark a step, or all members of a step that is a batch."""
    group = script.get("group")
    if group is None:
        script["expect"] = "maybe"
        return
    for child in (*group["members"], *group["after"]):
        _may_be_skipped(child["script"])
    for inner in group["inner"]:
        _may_be_skipped({"group": inner})
