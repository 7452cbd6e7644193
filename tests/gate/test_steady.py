"""Tests repeated under load: red runs are counted, and a pause stops all processes of a run."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence

import anyio
import pytest

from tests.gate.conftest import FIRST_TIME_ONLY, ROOT, Outcome, Project
from tests.support import eventually
from tests.support.supervising import runs
from tests.support.waiting import patient


def command(project: Project, count: int, load: str, name: str) -> Sequence[str]:
    """The command that repeats the planted tests of a name."""
    project.environment["PYTHONPATH"] = os.pathsep.join([str(project.folder / ".ci"), str(ROOT)])
    steady = [sys.executable, "-m", "gate.steady", str(count), load]
    pytest_ = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--import-mode=importlib"]
    return [*steady, *pytest_, f"planted/test_{name}.py"]


def repeat(project: Project, count: int, load: str, name: str) -> Outcome:
    """Repeat the tests, and wait for the end."""
    return project.call(*command(project, count, load, name))


def test_red_runs_are_counted_with_their_failures_and_seed(project: Project) -> None:
    fails = "    def test_odd():\n        if the_first_time():\n            raise Late('not yet')\n"
    project.plant("odd", FIRST_TIME_ONLY + fails)
    found = repeat(project, 2, "hog", "odd")
    assert found.code == 1
    first, failure, second, last = found.output.splitlines()
    assert re.fullmatch(r"run 1 of 2: 0 passed, \d+ s, RED, seed \d+, /\S+/1\.log", first)
    assert failure == "    late planted/test_odd.py::test_odd: Late: not yet"
    assert re.fullmatch(r"run 2 of 2: 1 passed, \d+ s", second)
    assert last.startswith("2 runs under hog: 1 red; the longest stall was ")


def test_a_run_without_a_test_is_red(project: Project) -> None:
    project.plant("none", "")
    found = repeat(project, 1, "hog", "none")
    assert (found.code, "no tests ran" in found.output) == (1, True)
    assert found.closing.startswith("1 run under hog: 1 red; ")


def test_an_unknown_load_is_refused_with_the_valid_ones(project: Project) -> None:
    found = repeat(project, 1, "rain", "none")
    assert found.code == 2
    assert all(name in found.output for name in ("slow", "stall", "hog"))


_LOOPS = """
    import os, time
    from gate import processes

    def test_each_core_has_one():
        def loops():
            beside = [p for p in processes.pids() if processes.parent(p) == os.getppid()]
            return sum(b"getppid" in processes.read(pid, "cmdline") for pid in beside)
        until = time.monotonic() + {seconds}
        while loops() < os.cpu_count():
            assert time.monotonic() < until
            time.sleep(0.05)
"""


def test_busy_loops_run_on_each_core(project: Project) -> None:
    project.plant("loops", _LOOPS.format(seconds=patient()))
    found = repeat(project, 1, "hog", "loops")
    assert found.code == 0, found.output


_STILL = """
    import os, signal, subprocess, sys, time
    from gate import processes

    GAPS = '''
    import pathlib, sys, time
    last = time.monotonic()
    while True:
        time.sleep(0.02)
        now = time.monotonic()
        if now - last > 0.9:
            pathlib.Path(sys.argv[1]).touch()
        last = now
    '''
    ORPHAN = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', *sys.argv[1:]])"

    def test_all_stand_still(tmp_path):
        python = [sys.executable, "-c"]
        own, orphan = tmp_path / "own", tmp_path / "orphan"
        group = subprocess.Popen([*python, GAPS, str(own)], start_new_session=True)
        stopped = subprocess.Popen([*python, GAPS, "never"])
        subprocess.run([*python, ORPHAN, GAPS, str(orphan)], check=True)
        adopted = [
            p for p in processes.pids() if str(orphan).encode() in processes.read(p, "cmdline")
        ]
        try:
            stopped.send_signal(signal.SIGSTOP)
            until = time.monotonic() + {seconds}
            stood_still, last = False, time.monotonic()
            while not (stood_still and own.exists() and orphan.exists()):
                assert time.monotonic() < until
                time.sleep(0.02)
                now = time.monotonic()
                stood_still, last = stood_still or now - last > 0.9, now
            assert processes.state(stopped.pid) == b"T", "it is the test's to go on"
        finally:
            for pid in [group.pid, stopped.pid, *adopted]:
                os.kill(pid, signal.SIGKILL)
            group.wait()
            stopped.wait()
        while any(processes.state(pid) for pid in adopted):
            assert time.monotonic() < until, "it was waited for, as init does"
            time.sleep(0.05)
"""


def test_a_pause_stops_all_processes_of_a_run_at_once(project: Project) -> None:
    project.plant("still", _STILL.format(seconds=patient(60)))
    found = repeat(project, 1, "stall", "still")
    assert found.code == 0, found.output
    told = re.fullmatch(
        r"1 run under stall: 0 red; the longest stall was ([\d.]+) s", found.closing
    )
    assert told is not None, found.closing
    assert float(told[1]) >= 1.0


_SHARE = """
    import os, subprocess, sys

    BUSY = '''
    import time
    until = time.monotonic() + 4
    while time.monotonic() < until: pass
    print(time.process_time())
    '''

    def test_share():
        busy = [
            subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE)
            for _ in range(os.cpu_count())
        ]
        used = sum(float(each.communicate()[0]) for each in busy)
        assert used < 0.7 * 4 * os.cpu_count()
"""


def test_a_run_under_slow_has_a_part_of_the_processor(project: Project) -> None:
    project.plant("share", _SHARE)
    found = repeat(project, 1, "slow", "share")
    assert found.code == 0, found.output


@pytest.mark.parametrize("load", ["stall", "slow"])
def test_an_ended_run_leaves_no_process_even_during_a_pause(project: Project, load: str) -> None:
    waits = "    import os, time\n    def test_waits():\n"
    waits += "        Path('began').write_text(f'{os.getpid()} ')\n        time.sleep(3600)\n"
    project.plant("waits", waits)
    began = project.folder / "began"
    steady = command(project, 1, load, "waits")
    environment = {"PATH": os.environ["PATH"], **project.environment}
    running = subprocess.Popen(steady, cwd=project.folder, env=environment)

    async def has_begun() -> bool:
        return began.exists() and " " in began.read_text()

    try:
        anyio.run(eventually, has_begun)
    finally:
        running.terminate()
    assert running.wait(patient(60)) == 130
    assert not runs(int(began.read_text()))
