"""One run of make: its arguments, environment, log, time limit and results."""

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from gate.results import Results, read_results
from gate.settings import ROOT, Stage

_END_SECONDS = 30.0
# pytest's exit statuses with a complete report: all passed, some failed.
_WHOLE = (0, 1)
# Variables of the caller that would make a run differ from CI's.
_DROPPED = ("GIT_", "INBOXD_", "MAKE", "MFLAGS", "PYTEST_", "PYTHONPATH")
_OF_THE_MAKEFILE = ("JOBS", "LONG", "LOWEST", "OPTIONS", "POSTGRES", "PYTHON", "TESTS", "VENV")
# A stage has a process group of its own. This shell waits on a pipe that only the gate holds open,
# and ends the stage if the gate is killed.
_GUARD = 'read -r _; kill -s INT -- "-$1"; sleep 10; kill -s KILL -- "-$1"'


@dataclass(frozen=True)
class Ran:
    """The result of a stage.

    results: None if the stage has no tests. trouble: why the stage is red, whatever its tests say;
    "" if it is not. was_ended: whether it exceeded its limit. postponed: why a later gate runs it;
    "" if this one did.
    """

    stage: Stage
    seconds: float
    results: Results | None
    trouble: str
    log: Path
    was_ended: bool = False
    postponed: str = ""

    @property
    def is_red(self) -> bool:
        """Whether anything failed, before any second look."""
        return bool(self.trouble or (self.results and self.results.failures))


def child_environment(seed: str, kept: Path | None = None) -> dict[str, str]:
    """The environment of all stages: the gate's own, without variables that CI does not set."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not (name.startswith(_DROPPED) or name in _OF_THE_MAKEFILE)
    }
    environment |= variables(seed)
    return environment if kept is None else environment | {"INBOXD_TEST_KEPT": str(kept)}


def variables(seed: str) -> dict[str, str]:
    """Variables that change a stage's result: seed, no skipped test, Hypothesis' profile of CI."""
    return {
        "CI": "true",
        "INBOXD_TEST_EVERYTHING": "1",
        "INBOXD_TEST_PATIENCE": "3",  # only a wrong program needs the whole wait
        "INBOXD_TEST_SEED": seed,
    }


def run_stage(
    stage: Stage, folder: Path, name: str, seconds: float, seed: str, root: Path = ROOT
) -> Ran:
    """Run a stage within this many seconds; `name` is that of its files in `folder`."""
    log, report = folder / f"{name}.log", folder / f"{name}.jsonl"
    options = f"--report-log={report} --report-log-exclude-logs-on-passed-tests --durations=25"
    arguments = [*stage.make, *([f"OPTIONS={options}"] if stage.pytest else [])]
    environment = child_environment(seed, folder / "workers" / name)
    began = time.monotonic()
    [code] = run_side_by_side({log: arguments}, seconds, environment, root)
    took = time.monotonic() - began
    results = read_results(stage.name, report) if stage.pytest else None
    return Ran(stage, took, results, _trouble(code, results, seconds), log, code is None)


def run_side_by_side(
    commands: Mapping[Path, Sequence[str]],
    seconds: float,
    environment: Mapping[str, str],
    root: Path = ROOT,
) -> list[int | None]:
    """Run make several times at once in a checkout, each with its output in its log.

    Returns the exit codes; None for a run that had to be ended.
    """
    deadline = time.monotonic() + seconds
    with ExitStack() as running:
        processes = [
            running.enter_context(
                started(["make", "--no-print-directory", *arguments], log, environment, root)
            )
            for log, arguments in commands.items()
        ]
        return [_wait(process, deadline - time.monotonic()) for process in processes]


@contextmanager
def started(
    command: Sequence[str], log: Path, environment: Mapping[str, str], root: Path = ROOT
) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a group of its own, ended with the `with` block, or with this process."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            list(command),
            cwd=root,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    guard = subprocess.Popen(
        ["/bin/sh", "-c", _GUARD, "guard", str(process.pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        # SIGINT first, as by Ctrl-C, so that fixtures clean up.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            if process.poll() is None:
                os.killpg(process.pid, number)
                _wait(process, _END_SECONDS)
        guard.kill()
        guard.communicate()


def _wait(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    try:
        return process.wait(max(seconds, 0.0))
    except subprocess.TimeoutExpired:
        return None


def _trouble(code: int | None, results: Results | None, seconds: float) -> str:
    if code is None:
        return f"it did not end within {seconds:.0f} seconds"
    if results is None:
        return f"make ended with exit code {code}" if code else ""
    if results.exit_status is None:
        return f"pytest did not get to its end; make ended with exit code {code}"
    if results.exit_status not in _WHOLE:
        return f"pytest ended with exit status {results.exit_status}"
    if code and not results.failures:
        return f"no test failed, but make ended with exit code {code}"
    return ""


def for_one_test(stage: Stage, test: str) -> Stage:
    """The stage with one test in one process."""
    kept = [each for each in stage.make if not each.startswith(("TESTS=", "JOBS="))]
    quoted = shlex.quote(test).replace("$", "$$")
    return replace(stage, make=(*kept, "JOBS=0", f"TESTS={quoted}"))


def as_command(stage: Stage, seed: str) -> str:
    """The command that runs the stage as the gate does."""
    given = [f"{name}={value}" for name, value in variables(seed).items()]
    return shlex.join(("env", *given, "make", *stage.make))
