"""The supervisor: children that end, hang or fail, and signals."""

import json
import os
import signal

import pytest

from tests.support import eventually
from tests.support.supervising import Supervise, files_of

pytestmark = pytest.mark.anyio


async def test_the_supervisor_is_ready_when_all_children_are(supervise: Supervise) -> None:
    it = supervise(processes=3, slow2="")
    await it.manager.hears("STATUS=2 of 3 processes")
    assert "READY=1" not in it.manager.told
    assert (await it.get("/readyz"))[0] == 503
    it.take_back("slow2")
    await it.manager.hears("STATUS=3 of 3 processes")
    await it.is_ready()
    assert sorted(number for number, _, _ in it.events()) == [1, 2, 3]
    assert (await it.get("/readyz"))[0] == 200


async def test_a_child_that_ends_is_restarted_at_once_and_then_after_pauses(
    supervise: Supervise,
) -> None:
    it = supervise()
    await it.is_ready()
    [first] = it.pids(number=1)
    it.tell("exit1", 70)
    os.kill(first, signal.SIGKILL)
    lines = await it.logged("a process has ended and is started again", 3)
    assert [(line["process"], line["code"]) for line in lines] == [
        (1, "SIGKILL"),
        (1, 70),
        (1, 70),
    ]
    assert [line["in_seconds"] for line in lines] == [0.0, 1.0, 2.0]
    assert len(it.pids(number=2)) == 1
    status, page = await it.get("/readyz")
    [waiting, working] = json.loads(page)["parts"]
    assert (status, waiting["ok"], working["ok"]) == (200, False, True)
    assert "starts again in" in waiting["detail"]
    it.take_back("exit1")
    await it.manager.hears("STATUS=2 of 2 processes")


async def test_wrong_settings_of_one_child_end_all(supervise: Supervise) -> None:
    it = supervise()
    await it.is_ready()
    it.tell("exit1", 78)
    os.kill(it.pids(number=1)[0], signal.SIGKILL)
    assert await it.wait() == 78
    assert it.pids("TERM") == it.pids(number=2), "the other child drained"


async def test_a_child_that_shows_no_life_is_killed_and_replaced(supervise: Supervise) -> None:
    it = supervise(patience=1.0)
    await it.is_ready()
    [stopped] = it.pids(number=1)
    os.kill(stopped, signal.SIGSTOP)
    [line] = await it.logged("a process shows no life and is killed")
    assert line["pid"] == stopped
    await it.are_gone(stopped)
    await it.manager.hears("STATUS=1 of 2 processes")
    await it.manager.hears("STATUS=2 of 2 processes")
    assert len(it.pids(number=1)) == 2
    assert len(it.pids(number=2)) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_all_children_drain_together(supervise: Supervise, number: signal.Signals) -> None:
    it = supervise()
    await it.is_ready()
    it.process.send_signal(number)
    await it.manager.hears("STOPPING=1")
    assert await it.wait() == 0
    assert sorted(it.pids("TERM")) == sorted(it.pids())


async def test_a_second_signal_kills_children_that_do_not_drain(supervise: Supervise) -> None:
    it = supervise(stubborn1="")
    await it.is_ready()
    it.process.terminate()
    await it.manager.hears("STATUS=draining: 1 of 2 processes")
    assert (await it.get("/readyz"))[0] == 503
    it.process.terminate()
    assert await it.wait() == 128 + signal.SIGTERM
    await it.are_gone(*it.pids())


async def test_a_hang_up_reaches_all_children(supervise: Supervise) -> None:
    it = supervise()
    await it.is_ready()
    it.process.send_signal(signal.SIGHUP)
    await it.manager.hears("RELOADING=1")
    await it.is_ready()
    assert sorted(it.pids("HUP")) == sorted(it.pids())


async def test_a_hang_up_waits_until_a_child_can_handle_it(supervise: Supervise) -> None:
    it = supervise(late1="")
    await it.manager.hears("STATUS=1 of 2 processes")
    it.process.send_signal(signal.SIGHUP)

    async def has_hung_up() -> bool:
        return len(it.pids("HUP")) == 1

    await eventually(has_hung_up)
    it.take_back("late1")
    await it.is_ready()

    async def have_hung_up() -> bool:
        return len(it.pids("HUP")) == 2

    await eventually(have_hung_up)
    assert len(it.pids()) == 2, "the hang-up ended a child"


async def test_children_drain_when_the_supervisor_is_killed(supervise: Supervise) -> None:
    it = supervise()
    await it.is_ready()
    it.process.kill()
    await it.are_gone(*it.pids())
    assert sorted(it.pids("TERM")) == sorted(it.pids())


async def test_a_child_that_cannot_run_does_not_end_the_supervisor(supervise: Supervise) -> None:
    it = supervise(processes=1, exit="3")
    lines = await it.logged("a process has ended and is started again", 2)
    assert [line["code"] for line in lines] == [3, 3]
    assert (await it.get("/healthz"))[0] == 200
    it.process.terminate()
    assert await it.wait() == 0


async def test_children_have_a_group_and_sockets_of_their_own(supervise: Supervise) -> None:
    it = supervise()
    await it.is_ready()
    [first] = it.pids(number=1)
    assert os.getpgid(first) == first, "Ctrl-C must reach a child once, through the supervisor"

    async def is_alone() -> bool:
        return sum(file.startswith("socket:") for file in files_of(first)) == 1

    await eventually(is_alone)
