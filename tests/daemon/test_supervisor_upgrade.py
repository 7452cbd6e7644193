"""The supervisor's program is replaced without an interruption for its clients."""

import os
import signal

import pytest

from tests.support import eventually
from tests.support.supervising import Supervise, Supervising, calling

pytestmark = pytest.mark.anyio


async def has_upgraded(it: Supervising, before: list[int]) -> None:
    await it.logged("upgraded")
    await it.are_gone(*before)


async def test_new_children_are_ready_before_the_old_ones_drain(supervise: Supervise) -> None:
    it = supervise(processes=2)
    await it.is_ready()
    before = it.pids()
    it.tell("slow2")
    it.process.send_signal(signal.SIGUSR2)
    await it.logged("a process is ready", 3)
    assert (await it.get("/readyz"))[0] == 200, "the old processes go on"
    assert it.pids("TERM") == []
    it.take_back("slow2")
    await has_upgraded(it, before)
    assert it.process.poll() is None, "the supervisor's process stays the same"
    assert sorted(it.pids("TERM")) == sorted(before)
    assert sorted(number for number, _, what in it.events() if what == "start") == [1, 1, 2, 2]
    it.process.terminate()
    assert await it.wait() == 0


@pytest.mark.long
async def test_an_upgrade_refuses_and_cuts_no_connection(supervise: Supervise) -> None:
    it = supervise()
    await it.is_ready()
    with calling(f"{it.url}/readyz") as caller:
        for _ in range(3):
            before = it.pids()[-2:]
            upgrades = len(it.pids()) // 2
            it.process.send_signal(signal.SIGUSR2)
            await it.logged("upgraded", upgrades)
            await it.are_gone(*before)
    assert caller.failures == []
    assert set(caller.answers) == {200}


async def test_a_program_that_cannot_start_changes_nothing(supervise: Supervise) -> None:
    it = supervise(broken="")
    await it.is_ready()
    it.process.send_signal(signal.SIGUSR2)
    [line] = await it.logged("not upgraded: the old processes go on")
    assert "the new program ends with 1" in str(line["reason"])
    assert "the new program is broken" in it.output()
    it.take_back("broken")
    it.change_plan(supervisor=["/nowhere/python"])
    it.process.send_signal(signal.SIGUSR2)
    lines = await it.logged("not upgraded: the old processes go on", 2)
    assert "No such file" in str(lines[1]["reason"])
    assert (await it.get("/readyz"))[0] == 200
    assert len(it.pids()) == 2
    assert it.pids("TERM") == []


@pytest.mark.long
@pytest.mark.parametrize("code", [1, 78])
async def test_an_upgrade_whose_children_cannot_start_is_given_up(
    supervise: Supervise, code: int
) -> None:
    it = supervise()
    await it.is_ready()
    before = it.pids()
    it.tell("exit2", code)
    it.process.send_signal(signal.SIGUSR2)
    await it.logged("not upgraded: a new process has ended, and the old ones go on")
    # The other new child may have been ended before it could note an event.
    new = [pid for pid in it.pids(number=1) if pid not in before]
    await it.are_gone(*new)
    assert not set(it.pids("TERM")) & set(before)
    assert (await it.get("/readyz"))[0] == 200
    os.kill(before[0], signal.SIGKILL)
    it.take_back("exit2")
    await it.manager.hears("STATUS=1 of 2 processes")
    await it.manager.hears("STATUS=2 of 2 processes")
    it.process.send_signal(signal.SIGUSR2)
    await has_upgraded(it, before)


@pytest.mark.long
async def test_a_child_that_ends_during_an_upgrade_is_restarted(supervise: Supervise) -> None:
    it = supervise()
    await it.is_ready()
    before = it.pids()
    it.tell("slow")
    it.process.send_signal(signal.SIGUSR2)

    async def have_started() -> bool:
        return len(it.pids()) == 4

    await eventually(have_started)
    os.kill(it.pids(number=1)[0], signal.SIGKILL)
    await it.logged("a process has ended and is started again")
    it.take_back("slow")
    await has_upgraded(it, before)
    await it.manager.hears("STATUS=2 of 2 processes")
    assert len(it.pids()) == 4


async def test_a_stop_during_an_upgrade_ends_all(supervise: Supervise) -> None:
    it = supervise()
    await it.is_ready()
    it.tell("slow")
    it.process.send_signal(signal.SIGUSR2)

    async def have_started() -> bool:
        return len(it.pids()) == 4

    await eventually(have_started)
    it.process.terminate()
    assert await it.wait() == 0
    await it.are_gone(*it.pids())


@pytest.mark.long
async def test_a_second_upgrade_waits_for_the_first(supervise: Supervise) -> None:
    it = supervise()
    await it.is_ready()
    it.tell("slow")
    it.process.send_signal(signal.SIGUSR2)
    await it.logged("supervising", 2)
    it.process.send_signal(signal.SIGUSR2)
    [line] = await it.logged("not upgraded")
    assert line["reason"] == "an upgrade is under way"
