"""The supervisor's plan, and the handover from one supervisor to the next: as JSON.

The command line reads the settings and writes the plan; the supervisor needs no settings, which is
why it is small. Standard library only.
*See:* `daemon/launch.py`, which makes the plan, and `daemon/supervisor.py`, which follows it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from inboxd.daemon.sockets import ListenAddress

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# The plan, with the handover, in the environment of a supervisor that starts.
SUPERVISOR = "INBOXD_SUPERVISOR"
# A file: a supervisor to be upgraded asks the command line for the plan alone.
ASKED_FOR_PLAN = "INBOXD_SUPERVISOR_PLAN"


@dataclass(frozen=True, slots=True)
class SupervisorPlan:
    """The program to run, how many processes, and how they listen and log."""

    # How a supervisor is started; the command line as it was given; a child's command line.
    supervisor: Sequence[str]
    program: Sequence[str]
    command: Sequence[str]
    processes: int
    addresses: Mapping[str, ListenAddress]
    # A child without a sign of life for this many seconds is killed.
    patience: float
    worker: str
    log_level: Literal["debug", "info", "warning", "error"]
    log_format: Literal["auto", "json", "console"]


@dataclass(frozen=True, slots=True)
class AdoptedChild:
    """A child of the previous supervisor; `notify` is the number of an open file."""

    number: int
    pid: int
    serial: int
    notify: int
    http: str | None
    ready: bool
    leaving: bool


@dataclass(frozen=True, slots=True)
class Handover:
    """The handover from a supervisor to the program that takes its place."""

    folder: str
    serial: int
    # Numbers of open files, by name.
    listeners: Mapping[str, Sequence[int]]
    children: Sequence[AdoptedChild]


def write(plan: SupervisorPlan, handover: Handover | None = None) -> str:
    """Plan and handover as a text for the environment."""
    return json.dumps(
        {"plan": asdict(plan), "handover": None if handover is None else asdict(handover)}
    )


def read(text: str) -> tuple[SupervisorPlan, Handover | None]:
    """Plan and handover from such a text; keys that a newer program added are left out."""
    document = json.loads(text)
    given = document["plan"]
    addresses = {name: ListenAddress(*each) for name, each in given["addresses"].items()}
    plan = SupervisorPlan(**_known(SupervisorPlan, given) | {"addresses": addresses})
    if (left := document["handover"]) is None:
        return plan, None
    children = [AdoptedChild(**_known(AdoptedChild, each)) for each in left["children"]]
    return plan, Handover(**_known(Handover, left) | {"children": children})


def _known(kind: "type[DataclassInstance]", values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: values[name] for each in fields(kind) if (name := each.name) in values}
