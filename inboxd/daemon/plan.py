"""The supervisor's plan, and the handover from one supervisor to the next: as JSON.

The supervisor needs no settings and stays small: standard library only.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from inboxd.daemon.sockets import ListenAddress

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# Environment variable with the plan and the handover, for a supervisor that starts.
SUPERVISOR = "INBOXD_SUPERVISOR"
# Environment variable with a file's path: an upgrade asks the command line only for the plan.
ASKED_FOR_PLAN = "INBOXD_SUPERVISOR_PLAN"


@dataclass(frozen=True, slots=True)
class SupervisorPlan:
    # The command to start a supervisor; the given command line; the command line of a child.
    supervisor: Sequence[str]
    program: Sequence[str]
    command: Sequence[str]
    processes: int
    addresses: Mapping[str, ListenAddress]
    # A child without a sign of life for this number of seconds is killed.
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
    folder: str
    serial: int
    # Numbers of open files, by name.
    listeners: Mapping[str, Sequence[int]]
    children: Sequence[AdoptedChild]


def write(plan: SupervisorPlan, handover: Handover | None = None) -> str:
    return json.dumps(
        {"plan": asdict(plan), "handover": None if handover is None else asdict(handover)}
    )


def read(text: str) -> tuple[SupervisorPlan, Handover | None]:
    """Plan and handover from such a text; unknown keys, from a newer program, are ignored."""
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
