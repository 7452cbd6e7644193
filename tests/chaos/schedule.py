"""Which fault happens when: a pure function of the seed and of the seconds.

Promises: the same seed and seconds give the same schedule, on every machine and Python; every kind
of fault comes once before any comes again. Known limit: the schedule repeats, what meets a fault
does not, since that is timing.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

# The settings of the workers; seconds. Faults are shorter or longer than these on purpose.
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

# How long each lasts, in seconds; what is not here is a moment.
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
# What a session of the daemon is for: the end of its application_name; "" is all of them.
PURPOSES = ("daemon", "handlers", "listener", "heartbeat", "")
# What hurts processes, and what hurts connections; the rest hurts the server and everybody.
_OF_PROCESSES: tuple[Kind, ...] = ("kill", "term", "insist", "pause", "stutter", "declare_dead")
_OF_CONNECTIONS: tuple[Kind, ...] = ("isolate", "half_open", "cut")
_OF_SESSIONS: tuple[Kind, ...] = ("half_open", "cut", "terminate")

# Before the first fault, and before each next one, in seconds.
_SETTLING_IN = 2.0
_PAUSES = (0.3, 3.0)
# A worker that loses its lease alone shows more than one that the next restart frees of its
# sessions; one that does not is what happens to be there when other things happen.
_ALONE = 0.5


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    `target` is a worker, "producers" or "server"; `purpose` says which of its sessions; `choice`
    decides what only the moment knows, such as which of the backends that are there then.
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
    """The faults of so many seconds; the last one ends before them."""
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
    """All kinds in some order, again and again."""
    while True:
        yield from chance.sample(KINDS, len(KINDS))


def _target(chance: random.Random, kind: Kind) -> str:
    if kind in _OF_PROCESSES:
        return chance.choice(WORKERS)
    if kind in _OF_CONNECTIONS:
        return chance.choice((*WORKERS, "producers"))
    return "server"


def describe(seed: int, seconds: float) -> str:
    """The schedule, for a person to read."""
    lines = [f"seed {seed}, {seconds:g} seconds", *map(str, plan(seed, seconds))]
    return "\n".join(lines)
