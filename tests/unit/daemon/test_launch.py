"""From a command line to the plan of a supervisor, and its handover to the next supervisor."""

import json
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from inboxd.daemon.launch import supervise
from inboxd.daemon.plan import (
    ASKED_FOR_PLAN,
    SUPERVISOR,
    AdoptedChild,
    Handover,
    SupervisorPlan,
    read,
    write,
)
from inboxd.daemon.sockets import ListenAddress
from inboxd.settings import Settings, Worker

# The handover of an older release's supervisor: this release can read all of it.
HANDED_OVER = json.dumps(
    {
        "plan": {
            "supervisor": [],
            "program": [],
            "command": [],
            "processes": 4,
            "addresses": {},
            "patience": 90.0,
            "worker": "a",
            "log_level": "info",
            "log_format": "json",
        },
        "handover": {"folder": "/run/a", "serial": 4, "listeners": {}, "children": []},
    }
)
ADDRESSES = {"http": ListenAddress("http", "127.0.0.1", 8797)}


def planned(
    monkeypatch: pytest.MonkeyPatch, path: Path, before: list[str], given: list[str]
) -> SupervisorPlan:
    """The plan that `inboxd` makes when a supervisor asks for it."""
    monkeypatch.setattr(sys, "argv", ["inboxd", *given])
    monkeypatch.setattr(sys, "orig_argv", ["python", *before, *given])
    monkeypatch.setenv(ASKED_FOR_PLAN, str(path))
    monkeypatch.setenv(SUPERVISOR, HANDED_OVER)
    settings = Settings(worker=Worker(name="a", stall_timeout=timedelta(seconds=60)))
    with pytest.raises(SystemExit) as ended:
        supervise(settings, ADDRESSES, 4)
    assert ended.value.code == 0
    plan, handover = read(path.read_text())
    assert handover is None
    return plan


@pytest.mark.parametrize(
    "given",
    [
        ["run", "--processes", "4", "-c", "a.toml"],
        ["run", "-c", "a.toml", "--processes=4"],
    ],
)
def test_a_child_has_the_same_command_line_without_the_number(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: list[str]
) -> None:
    plan = planned(monkeypatch, tmp_path / "plan", ["/opt/bin/inboxd"], given)
    assert plan.program == [sys.executable, "/opt/bin/inboxd", *given]
    assert plan.command == [sys.executable, "/opt/bin/inboxd", "run", "-c", "a.toml"]
    assert plan.supervisor == [sys.executable, "-P", "-m", "inboxd.daemon.supervisor"]


def test_a_child_has_the_interpreter_options_of_the_command_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = ["-W", "error", "-m", "inboxd"]
    plan = planned(monkeypatch, tmp_path / "plan", before, ["run", "--processes", "4"])
    assert plan.command == [sys.executable, *before, "run"]
    assert plan.supervisor == [sys.executable, "-m", "inboxd.daemon.supervisor"]
    assert (plan.processes, plan.worker, plan.addresses) == (4, "a", ADDRESSES)
    assert plan.patience > 60, "a child has time to name the handler that blocks it"


def test_a_handover_is_read_as_it_was_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plan = planned(monkeypatch, tmp_path / "plan", ["inboxd"], ["run", "--processes", "4"])
    child = AdoptedChild(1, 4711, 7, 100, "/tmp/a", ready=True, leaving=False)  # noqa: S108
    handover = Handover("/run/a", 7, {"http": [101]}, [child])
    assert read(write(plan, handover)) == (plan, handover)


def test_an_unreadable_handover_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    document = json.loads(HANDED_OVER)
    del document["handover"]["listeners"]
    monkeypatch.setitem(globals(), "HANDED_OVER", json.dumps(document))
    with pytest.raises(TypeError, match="listeners"):
        planned(monkeypatch, tmp_path / "plan", ["inboxd"], ["run", "--processes", "4"])
    assert not (tmp_path / "plan").exists()


def test_unknown_fields_of_a_newer_program_are_ignored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plan = planned(monkeypatch, tmp_path / "plan", ["inboxd"], ["run", "--processes", "4"])
    document = json.loads(write(plan))
    document["plan"]["colour"] = "blue"
    assert read(json.dumps(document)) == (plan, None)
