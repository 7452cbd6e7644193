"""The faults and their times: a pure function of the seed and the length.

Promises: the same seed and seconds give the same schedule, on every machine and Python; every kind
of fault comes once before any comes again. Known limit: the schedule repeats, but not what a fault
meets, since that is timing.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

# Settings of the workers, in seconds; faults are shorter or longer than these on purpose.
LEASE = 6.0
WORKERS = ("one", "two")

Kind = Literal[
    "kill",
    "term",
    "insist",
    "pause",
    "stutter",
    "declare_dead",
    "isolate",
    "half_open",
    "cut",
    "hush",
    "stale_flags",
    "terminate",
    "slots",
    "lock",
    "snapshot",
    "restart_fast",
    "restart_immediate",
    "outage",
]
KINDS: tuple[Kind, ...] = get_args(Kind)

# The length of each, in seconds; all others take a moment.
_LASTS: MappingProxyType[Kind, tuple[float, float]] = MappingProxyType(
    {
        "pause": (LEASE + 2, LEASE + 5),
        "stutter": (0.3, LEASE / 4),
        "isolate": (LEASE + 2, LEASE + 5),
        "half_open": (2, 8),
        "hush": (3, 8),
        "slots": (0.5, LEASE / 3),
        "lock": (0.5, 4),
        "snapshot": (5, 20),
        "outage": (LEASE / 2, LEASE + 3),
    }
)
# Purposes of the daemon's sessions, at the end of application_name; "" is all of them.
PURPOSES = ("daemon", "handlers", "listener", "heartbeat", "")
# Faults on processes, and on connections; all others affect the server, and so every process.
_OF_PROCESSES: tuple[Kind, ...] = ("kill", "term", "insist", "pause", "stutter", "declare_dead")
_OF_CONNECTIONS: tuple[Kind, ...] = ("isolate", "half_open", "cut")
_OF_SESSIONS: tuple[Kind, ...] = ("half_open", "cut", "terminate")

# Seconds before the first fault, and before each next one.
_SETTLING_IN = 2.0
_PAUSES = (0.3, 3.0)
# A lost lease tests less if another fault restarts the worker or the server meanwhile; so only half
# of these faults overlap with others.
_ALONE = 0.5


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    target: a worker, "producers" or "server". purpose: which of its sessions. choice: a random
    number that selects among what exists at that moment.
    """

    at: float
    kind: Kind
    target: str
    purpose: str
    seconds: float
    choice: float

    def __str__(self) -> str:
        """One line of a schedule."""
        lasts = f"{self.seconds:.1f} s" if self.seconds else ""
        return f"{self.at:7.2f}  {self.kind:<18}{self.target:<10}{self.purpose:<10}{lasts}".rstrip()


def plan(seed: int, seconds: float) -> tuple[Fault, ...]:
    """The faults of this many seconds; the last one ends before."""
    chance = random.Random(f"inboxd chaos {seed}")
    faults: list[Fault] = []
    at = _SETTLING_IN
    for kind in _decks(chance):
        at += chance.uniform(*_PAUSES)
        least, most = _LASTS.get(kind, (0.0, 0.0))
        fault = Fault(
            at=round(at, 2),
            kind=kind,
            target=_target(chance, kind),
            purpose=chance.choice(PURPOSES) if kind in _OF_SESSIONS else "",
            seconds=round(chance.uniform(least, most), 1),
            choice=round(chance.random(), 6),
        )
        if at >= seconds:
            break
        if fault.at + fault.seconds < seconds:
            faults.append(fault)
            if kind in ("pause", "isolate") and fault.choice < _ALONE:
                at += fault.seconds
    return tuple(faults)


def _decks(chance: random.Random) -> Iterator[Kind]:
    """All kinds in random order, again and again."""
    while True:
        yield from chance.sample(KINDS, len(KINDS))


def _target(chance: random.Random, kind: Kind) -> str:
    if kind in _OF_PROCESSES:
        return chance.choice(WORKERS)
    if kind in _OF_CONNECTIONS:
        return chance.choice((*WORKERS, "producers"))
    return "server"


def describe(seed: int, seconds: float) -> str:
    lines = [f"seed {seed}, {seconds:g} seconds", *map(str, plan(seed, seconds))]
    return "\n".join(lines)
