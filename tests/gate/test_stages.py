"""The gate's stages: each runs to its end, is reported, and leaves its logs."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest

from gate.folder import KEPT_RUNS
from tests.gate.conftest import ROOT, Project
from tests.support import eventually
from tests.support.supervising import runs
from tests.support.waiting import patient

pytestmark = pytest.mark.timeout(300)

FINE = "def test_fine():\n    pass\n"


def test_a_stage_that_fails_hides_no_later_failure(project: Project) -> None:
    project.plant("early", "def test_early():\n    assert False, 'the early one'\n")
    project.plant("middle", FINE)
    project.plant("late", "def test_late():\n    assert False, 'the late one'\n")
    found = project.run()
    assert (found.code, found.closing) == (1, "1 passed, 2 failed")
    assert [line.split()[1] for line in found.about("RED")] == [
        "planted/test_early.py::test_early",
        "planted/test_late.py::test_late",
    ]
    assert [line.split()[0] for line in found.summary[1:4]] == ["early", "middle", "late"]


def test_a_check_that_fails_ends_the_run(project: Project) -> None:
    project.settings += '[[stage]]\nname = "check"\nmake = ["bad"]\nlimit = 60\n'
    project.settings += "pytest = false\nends_early = true\n"
    project.plant("fine", FINE)
    found = project.run()
    assert (found.code, found.closing) == (1, "0 passed, 1 failed")
    assert "RED: make ended with exit code 2" in found.summary[1]
    assert len(found.summary) == 3


def test_a_set_up_that_fails_ends_the_run(project: Project) -> None:
    project.settings += '[[environment]]\nmake = ["good"]\n[[environment]]\nmake = ["bad"]\n'
    project.plant("fine", FINE)
    found = project.run()
    assert (found.code, found.closing) == (1, "0 passed, 1 failed")
    assert "RED: make bad failed" in found.summary[1]


def test_a_coroutine_that_waits_for_ever_ends_at_its_time_limit_on_uvloop(
    project: Project,
) -> None:
    project.plant(
        "waits",
        """
        import anyio

        @pytest.fixture
        def anyio_backend():
            return "asyncio", {"use_uvloop": True}

        @pytest.mark.anyio
        @pytest.mark.timeout(2)
        async def test_waits():
            await anyio.Event().wait()
        """,
    )
    project.plant("fine", FINE)
    found = project.run()
    assert (found.code, found.closing) == (1, "1 passed, 1 failed")
    [red] = found.about("RED")
    assert "test_waits" in red
    assert "Late: The test has not ended within 2 seconds." in found.output


def test_a_stage_that_hangs_is_ended_and_the_next_one_runs(project: Project) -> None:
    project.plant("hangs", "import time\ndef test_hangs():\n    time.sleep(3600)\n")
    project.settings = project.settings.replace("limit = 60", "limit = 8")
    project.plant("fine", FINE)
    found = project.run()
    assert found.code == 1
    assert "RED: it did not end within 8 seconds" in found.summary[1]
    assert "1 passed" in found.summary[2]


def test_no_stage_begins_after_the_deadline(project: Project) -> None:
    project.settings = "deadline = 60\n"  # only the report's share
    project.plant("fine", FINE)
    found = project.run()
    assert (found.code, found.closing) == (1, "0 passed, 1 failed")
    assert "RED: not run: no time was left" in found.summary[1]


def test_a_pytest_that_dies_is_red(project: Project) -> None:
    project.plant("dies", "import os\ndef test_dies():\n    os._exit(0)\n")
    found = project.run()
    assert (found.code, found.closing) == (1, "0 passed, 1 failed")
    assert "RED: pytest did not get to its end" in found.summary[1]


def test_a_file_that_cannot_be_collected_is_red(project: Project) -> None:
    project.plant("broken", "import no_such_module\n")
    found = project.run()
    assert found.code == 1
    assert "no_such_module" in found.output


def test_a_stage_without_tests_is_red(project: Project) -> None:
    project.plant("empty", "")
    found = project.run()
    assert (found.code, found.closing) == (1, "0 passed, 1 failed")
    assert "RED: pytest ended with exit status 5" in found.summary[1]


def test_the_logs_of_a_failed_test_are_kept(project: Project) -> None:
    project.plant(
        "logs",
        """
    def test_it(tmp_path):
        (tmp_path / "worker-1.log").write_text("the worker's last word")
        print("on its output")
        assert False
    def test_another(tmp_path):
        (tmp_path / "worker-2.log").write_text("nobody asks")
    """,
    )
    found = project.run()
    assert "on its output" in found.output
    folder = project.runs / "latest"
    logs = {log.name for log in folder.glob("workers/logs/*/*.log")}
    assert logs == {"0-worker-1.log"}
    assert "slowest" in (folder / "logs.log").read_text()
    assert (folder / "summary.txt").read_text().splitlines() == found.summary
    [failure] = (folder / "failures.jsonl").read_text().splitlines()
    assert '"kind": "plain"' in failure


def test_twenty_runs_are_kept(project: Project) -> None:
    project.runs.mkdir()
    (project.runs / "0-notes").mkdir()
    for number in range(KEPT_RUNS + 3):
        (project.runs / f"20200101-0000{number:02}-old").mkdir()
    project.plant("fine", FINE)
    project.run()
    kept = sorted(each.name for each in project.runs.glob("20*"))
    assert len(kept) == KEPT_RUNS
    assert kept[0] == "20200101-000004-old"
    assert (project.runs / "0-notes").exists(), "only folders of runs are removed"


def test_a_missing_program_is_named_within_ten_seconds(project: Project, tmp_path: Path) -> None:
    """Without apt-get, as on a machine other than Debian's."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("bash", "dirname", "git"):
        (programs / name).symlink_to(f"/usr/bin/{name}")
    (programs / "python3").symlink_to(sys.executable)
    project.environment["PATH"] = str(programs)
    project.settings += '[[program]]\npackage = "kcat"\nfound = ["no-such-program"]\n'
    project.plant("fine", FINE)
    began = time.monotonic()
    found = project.run()
    assert time.monotonic() - began < 10
    assert (found.code, found.closing) == (1, "0 passed, 1 failed")
    assert "packages that are not installed: kcat" in found.output


@pytest.fixture
def gate(project: Project) -> Iterator[subprocess.Popen[str]]:
    """A gate whose one test waits for an hour; the file `began` has the pid of its pytest."""
    waits = "import os, time\ndef test_fails():\n    assert False\ndef test_waits():\n"
    waits += "    Path('began').write_text(str(os.getpid()))\n    time.sleep(3600)\n"
    project.plant("waits", waits)
    (project.folder / ".ci/gate.toml").write_text(project.settings)
    gate = subprocess.Popen(
        ["/bin/bash", ".ci/run"],
        cwd=project.folder,
        env={"PATH": os.environ["PATH"], "INBOXD_CI_RUNS": str(project.runs)},
        stdout=subprocess.PIPE,
        text=True,
    )
    _wait_for(lambda: _pytest(project) is not None)
    yield gate
    gate.kill()
    gate.communicate()


def _pytest(project: Project) -> int | None:
    marker = project.folder / "began"
    return int(marker.read_text() or 0) or None if marker.exists() else None


def _wait_for(condition: Callable[[], bool]) -> None:
    async def holds() -> bool:
        return condition()

    anyio.run(eventually, holds)


@pytest.mark.usefixtures("hang_ups")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_an_interrupted_gate_reports_and_leaves_no_process(
    project: Project, gate: subprocess.Popen[str], number: signal.Signals
) -> None:
    gate.send_signal(number)
    output, _ = gate.communicate(timeout=patient(60))
    assert gate.returncode == 130
    assert output.splitlines()[-1].endswith(" failed")
    assert "RED: the gate was interrupted" in output
    pid = _pytest(project)
    assert pid is not None
    assert not runs(pid)


def test_the_stage_of_a_killed_gate_is_ended(project: Project, gate: subprocess.Popen[str]) -> None:
    pid = _pytest(project)
    assert pid is not None
    assert runs(pid)
    gate.kill()
    _wait_for(lambda: not runs(pid))


def test_a_second_gate_is_refused(project: Project, gate: subprocess.Popen[str]) -> None:
    found = project.call("bash", ".ci/run")
    assert (found.code, found.closing) == (1, "0 passed, 1 failed")
    assert "Another gate runs and has the lock of" in found.output


def test_the_callers_environment_changes_no_stage(project: Project) -> None:
    project.plant("fine", FINE)
    project.settings = project.settings.replace(', "TESTS=planted/test_fine.py"', "")
    project.environment |= {"TESTS": "planted/nothing.py", "OPTIONS": "--collect-only"}
    project.environment |= {"PYTEST_ADDOPTS": "--collect-only", "INBOXD_TEST_POOLER": "1"}
    found = project.run()
    assert (found.code, found.closing) == (0, "1 passed, 0 failed")


def test_odd_bytes_in_a_failure_do_not_hide_the_report(project: Project) -> None:
    project.plant("odd", "def test_odd():\n    assert False, chr(0xD800) + chr(0x1F600)\n")
    found = project.run()
    assert (found.code, found.closing) == (1, "0 passed, 1 failed")
    assert "red again, alone" in found.about("RED")[0]


def test_the_gates_stages_are_targets_of_the_makefile() -> None:
    from gate.settings import read_settings  # noqa: PLC0415 - looks for Pythons

    settings, makefile = read_settings(), (ROOT / "Makefile").read_text()
    targets = {stage.make[0] for stage in settings.stages}
    assert targets == {
        *("check", "test", "test-benchmarks", "test-brokers", "test-databases", "test-gate"),
        *("test-lowest", "test-long", "test-plans", "test-screens", "test-workers"),
    }
    assert all(f"\n{target}:" in makefile for target in targets)
    assert settings.deadline < 5_400, "CI kills the gate after that"
    assert settings.needs_root
