"""Repeats tests under load, and reports the number of red runs: `make steady` runs it.

    python -m gate.steady COUNT slow|stall|hog PYTEST...

PYTEST is a command of pytest, to which the path of its report log is added. `slow`: the tests have
a third of the processor. `stall`: all of their processes are stopped now and then, for up to four
seconds. `hog`: a busy loop runs beside them on each core.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from gate import loads
from gate.metronome import Metronome
from gate.results import Results, read_results
from gate.running import started

_SHOWN_LINES = 20
# The exit code of shells for Ctrl-C.
_INTERRUPTED = 130


@dataclass(frozen=True)
class Run:
    """One run of the tests. code: pytest's exit code."""

    number: int
    seed: str
    code: int
    seconds: float
    results: Results
    log: Path

    @property
    def is_red(self) -> bool:
        """Whether anything failed, or no test ran."""
        return self.code != 0

    def lines(self, count: int) -> list[str]:
        """The text for a terminal: each failure, or the end of the log if none is known."""
        head = f"run {self.number} of {count}: {self.results.passed} passed, {self.seconds:.0f} s"
        if not self.is_red:
            return [head]
        lines = [f"{head}, RED, seed {self.seed}, {self.log}"]
        lines += [f"    {each.kind} {each.test}: {each.error}" for each in self.results.failures]
        if not self.results.failures:
            lines += self.log.read_text(errors="replace").splitlines()[-_SHOWN_LINES:]
        return lines


def main() -> int:
    """Repeat the tests; return 0 if no run was red."""
    given = _arguments()
    for told in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(told, _interrupt)
    folder = Path(tempfile.mkdtemp(prefix="inboxd-steady-"))
    reds = 0
    with Metronome() as metronome, loads.load(given.load, random.Random()) as load:
        for number in range(1, given.count + 1):
            run = _run(given.command, load, folder, number)
            reds += run.is_red
            print("\n".join(run.lines(given.count)), flush=True)  # noqa: T201 - its output
        longest = max(load.longest, metronome.between(0.0, time.time()).longest)
    runs = "1 run" if given.count == 1 else f"{given.count} runs"
    print(f"{runs} under {given.load}: {reds} red; the longest stall was {longest:.1f} s")  # noqa: T201 - as above
    if not reds:
        shutil.rmtree(folder)
    return min(reds, 1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m gate.steady", description=__doc__)
    parser.add_argument("count", type=_positive)
    parser.add_argument("load", choices=get_args(loads.Name))
    parser.add_argument("command", nargs=argparse.REMAINDER)
    return parser.parse_args()


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a valid number of runs: use 1 or more")
    return number


def _run(command: list[str], load: loads.Load, folder: Path, number: int) -> Run:
    seed = os.environ.get("INBOXD_TEST_SEED") or str(random.randrange(10**6))
    log, report = folder / f"{number}.log", folder / f"{number}.jsonl"
    options = [f"--report-log={report}", "--report-log-exclude-logs-on-passed-tests"]
    environment = os.environ | {
        "INBOXD_TEST_SEED": seed,
        "INBOXD_TEST_KEPT": str(folder / f"{number}-workers"),
    }
    began = time.monotonic()
    with (
        started(load.command([*command, *options]), log, environment) as process,
        load.beside(process.pid),
    ):
        code = process.wait()
    return Run(number, seed, code, time.monotonic() - began, read_results("steady", report), log)


def _interrupt(*_: object) -> None:
    """End the tests' processes as Ctrl-C does."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
