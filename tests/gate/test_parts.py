"""Single parts of the gate: the metronome, the report log, kinds of failures, programs."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest

from gate import programs, second_look
from gate.__main__ import main
from gate.metronome import Metronome
from gate.programs import ProgramsMissing, install_missing
from gate.results import Failure, Kind, Results, read_results
from gate.running import Ran
from gate.settings import Program, Stage, read_settings
from tests.gate.conftest import ROOT
from tests.support import waiting
from tests.support.verdicts import Late, Violation, kind_of, one_line, safety
from tests.support.waiting import patient

_STOPPED = """
import sys, time
sys.path.insert(0, {folder!r})
from gate.metronome import Metronome
with Metronome() as metronome:
    began = time.time()
    print("ready", flush=True)
    sys.stdin.readline()
    ended = time.time()
    time.sleep(0.5)
    print(*metronome.between(began, ended), *metronome.between(ended + 60, ended + 61), flush=True)
"""


def test_the_metronome_measures_a_pause() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _STOPPED.format(folder=str(ROOT / ".ci"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGSTOP)
    time.sleep(1.5)  # the pause itself
    process.send_signal(signal.SIGCONT)
    output, _ = process.communicate("go on\n", timeout=patient())
    total, longest, *elsewhere = map(float, output.split())
    assert 1.0 < longest <= total
    assert elsewhere == [0.0, 0.0]


# ------------------------------------------------------------------------------- the report log


def _log(file: Path, *reports: Mapping[str, object]) -> Path:
    lines = [json.dumps({"$report_type": "TestReport", **report}) for report in reports]
    lines.append(json.dumps({"$report_type": "SessionFinish", "exitstatus": 1}))
    file.write_text("\n".join(lines))
    return file


def test_the_files_of_a_stage_have_its_name() -> None:
    assert Stage("plans, embedded server", (), 1).file_name == "plans-embedded-server"


def test_results_are_read_without_the_group_that_xdist_adds(tmp_path: Path) -> None:
    log = _log(
        tmp_path / "log",
        {"nodeid": "a.py::test_x[a@b]@daemon-test_a-0", "when": "call", "outcome": "passed"},
        {"nodeid": "a.py::test_y@plans-test_plans", "when": "call", "outcome": "failed"},
    )
    found = read_results("quick", log)
    assert [each.test for each in found.failures] == ["a.py::test_y"]
    assert (found.passed, found.exit_status) == (1, 1)


def test_a_test_whose_teardown_fails_has_failed_once(tmp_path: Path) -> None:
    failed = {"nodeid": "a.py::test_x", "when": "teardown", "outcome": "failed"}
    violation = {**failed, "user_properties": [["kind", "violation"]]}
    log = _log(
        tmp_path / "log",
        {"nodeid": "a.py::test_x", "when": "call", "outcome": "passed"},
        failed,
        violation,
    )
    found = read_results("quick", log)
    assert found.passed == 0
    assert [each.kind for each in found.failures] == ["violation"]


def test_a_process_that_dies_fails_its_running_test(tmp_path: Path) -> None:
    """pytest-xdist reports it in this form."""
    died = "worker 'gw1' crashed while running 'a.py::test_x'"
    report = {"nodeid": "a.py::test_x", "when": "???", "outcome": "failed", "longrepr": died}
    [failure] = read_results("quick", _log(tmp_path / "log", report)).failures
    assert (failure.kind, failure.error) == ("plain", died)


def test_a_log_that_ends_within_a_line_has_no_exit_status(tmp_path: Path) -> None:
    log = _log(tmp_path / "log", {"nodeid": "a.py::test_x", "when": "call", "outcome": "passed"})
    log.write_text(log.read_text()[:-10])
    found = read_results("quick", log)
    assert (found.passed, found.exit_status) == (1, None)
    assert read_results("quick", tmp_path / "none").exit_status is None


# ------------------------------------------------------------------------------------- kinds


def _because(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


def test_the_kind_of_a_failure_is_that_of_its_exception_or_of_its_cause() -> None:
    assert kind_of(AssertionError("no")) == "plain"
    assert kind_of(Late("no")) == "late"
    assert kind_of(_because(AssertionError("rows are left"), Late("no"))) == "late"
    assert kind_of(_because(AssertionError("no"), Violation("twice"))) == "violation"
    assert kind_of(TimeoutError()) == "late"
    group = BaseExceptionGroup("tasks", [ValueError(), BaseExceptionGroup("", [Violation("x")])])
    assert kind_of(group) == "violation"
    assert kind_of(BaseExceptionGroup("tasks", [ValueError(), Late("x")])) == "late"


def test_a_timeout_of_pytest_is_late() -> None:
    with pytest.raises(pytest.fail.Exception) as caught:
        pytest.fail("Timeout (>120.0s) from pytest-timeout.")
    assert kind_of(caught.value) == "late"


@pytest.mark.anyio
async def test_an_expired_wait_is_late_and_one_factor_scales_all_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def never() -> bool:
        return False

    monkeypatch.setattr(waiting, "PATIENCE", 0.01)
    with pytest.raises(Late, match=r"^Not within 0\.3 seconds"):
        await waiting.eventually(never)
    with pytest.raises(Late, match=r"^Not ended within 0\.1 seconds"), waiting.bounded(10):
        await anyio.sleep_forever()
    assert waiting.patient(60) == 0.6


def test_a_failed_assertion_about_safety_is_a_violation_but_a_wait_stays_late() -> None:
    with pytest.raises(Violation, match="twice"), safety():
        raise AssertionError("twice")
    with pytest.raises(Late), safety():
        raise Late("no")
    with pytest.raises(Violation), safety(), pytest.raises(ValueError, match="any"):
        pass
    with pytest.raises(Violation), safety():
        raise ExceptionGroup("tasks", [AssertionError("twice"), Late("no")])


def test_an_error_handled_before_an_assertion_does_not_make_it_late() -> None:
    error = AssertionError("twice")
    error.__context__ = TimeoutError()
    assert kind_of(error) == "plain"
    assert kind_of(error, about_safety=True) == "violation"
    error.__context__ = Violation("lost")
    assert kind_of(error) == "violation"


def test_the_deciding_member_of_a_group_is_shown() -> None:
    group = ExceptionGroup("tasks", [ValueError("noise"), Late("Not within 30 seconds.\nMore.")])
    assert one_line(group) == "Late: Not within 30 seconds."
    assert one_line(ValueError("a\nb")) == "ValueError: a"


# -------------------------------------------------------------------------------- second looks


def _failed(kind: Kind) -> Ran:
    failure = Failure("quick", f"a.py::test_{kind}", kind, "no", "no", 0.0, 0.0)
    stage = Stage("quick", ("test",), 60)
    return Ran(stage, 1.0, Results(0, (failure,), 1), "", Path("quick.log"))


def test_without_time_each_failure_is_red_and_nothing_runs(tmp_path: Path) -> None:
    ran = [_failed("late"), _failed("violation")]
    judged = second_look.look_again(ran, tmp_path, "1", Metronome(), lambda: 0.0)
    assert [each.is_red for each in judged] == [True, True]
    assert [each.told for each in judged] == [
        "no time was left for a second look",
        "safety gets no second look; not repeated: no time was left",
    ]
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------------------------- programs


def test_the_gate_installs_each_package_that_skipped_tests_name() -> None:
    known = [program.package for program in read_settings().programs]
    texts = [file.read_text() for file in (ROOT / "tests").rglob("*.py") if file != Path(__file__)]
    asked = {name for text in texts for name in re.findall(r"apt install ([\w-]+)", text)}
    assert {"faketime", "pgbouncer", "strace"} <= asked
    assert [name for name in asked if not any(each.startswith(name) for each in known)] == []


def test_programs_are_found_by_name_and_by_path(tmp_path: Path) -> None:
    (tmp_path / "lib-x").mkdir()
    (tmp_path / "lib-x/that.so").touch()
    by_path = Program("that", ("/no/such", f"{tmp_path}/lib-*/that.so"))
    assert install_missing([Program("sh", ("sh",)), by_path]) == []


def test_a_failed_installation_names_the_package_and_the_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    apt = tmp_path / "apt-get"
    apt.write_text('#!/bin/sh\nif [ "$2" = install ]; then echo "E: no $4" >&2; exit 100; fi\n')
    apt.chmod(0o755)
    monkeypatch.setattr(programs, "_PATH", f"{tmp_path}:{os.defpath}")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(ProgramsMissing, match=r"could not install kcat:\nE: no kcat"):
        install_missing([Program("kcat", ("no-such-program",))])


def test_a_package_without_the_program_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    apt = tmp_path / "apt-get"
    apt.write_text("#!/bin/sh\n")
    apt.chmod(0o755)
    monkeypatch.setattr(programs, "_PATH", f"{tmp_path}:{os.defpath}")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(ProgramsMissing, match="the programs of kcat are still not found"):
        install_missing([Program("kcat", ("no-such-program",))])


def test_a_user_other_than_root_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert main() == 1
    assert capsys.readouterr().out.endswith("run the gate as root.\n0 passed, 1 failed\n")
