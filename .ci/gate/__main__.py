"""The steps of a run: provide, clean, set up, run all stages, look again, report."""

import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from gate import base, debt
from gate.folder import AnotherGateRuns, make_folder, newest_commit, only_gate
from gate.leftovers import clean
from gate.metronome import Metronome
from gate.programs import ProgramsMissing, install_missing
from gate.running import Ran, child_environment, run_side_by_side, run_stage
from gate.second_look import look_again, without_look
from gate.settings import Settings, Stage, read_settings
from gate.slices import Choice, choose, new_line, tested_commit
from gate.summary import Summary, stage_line

_SHOWN_LINES = 60
_SHOWN_FAILURES = 12
# A stage that takes its usual time, scaled, this many times hangs.
_HANGS_AFTER = 2.0
# Seconds kept for the report, out of the time that is left.
_REPORT_SECONDS = 60.0
# The exit code of shells for Ctrl-C.
_INTERRUPTED = 130
_NOT_ROOT = (
    "Some tests need root, since they mount file systems, limit memory or run servers as another "
    "account, and no test may be skipped: run the gate as root."
)


def main() -> int:
    """Run the gate; return 0 if nothing is red."""
    began = time.monotonic()
    settings = read_settings()
    if settings.needs_root and os.geteuid() != 0:
        say(f"{_NOT_ROOT}\n0 passed, 1 failed")
        return 1
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores it
            signal.signal(number, _interrupt)
    try:
        with only_gate():
            if installed := install_missing(settings.programs):
                say(f"installed: {', '.join(installed)}")
            for line in clean(settings.leftovers, in_ci="CI" in os.environ):
                say(f"left by a killed run: {line}")
            return _run(settings, began)
    except (AnotherGateRuns, ProgramsMissing) as error:
        say(f"{error}\n0 passed, 1 failed")
        return 1


def _run(settings: Settings, began: float) -> int:
    commit = newest_commit()
    folder = make_folder(commit)
    seed = os.environ.get("INBOXD_TEST_SEED") or str(random.randrange(10**6))
    say(f"commit {commit}, seed {seed}, logs in {folder}")
    choice = choose(settings)
    notes = [line for line in [choice.told()] if line]
    for line in notes:
        say(line)

    def seconds_left() -> float:
        return settings.deadline - _REPORT_SECONDS - (time.monotonic() - began)

    def until_second_looks() -> float:
        return seconds_left() - settings.second_looks

    ran: list[Ran] = []
    interrupted = False
    with Metronome() as metronome:
        try:
            for each in _run_all(settings, choice, folder, seed, until_second_looks):
                ran.append(each)
                _show(each)
            judged = look_again(ran, folder, seed, metronome, seconds_left)
            others = {*choice.turn, *choice.earlier}
            untouched = {each.name: each for each in settings.stages if each.slice in others}
            judged = base.compare(
                *(judged, untouched, choice.earlier, choice.base, folder, seed, seconds_left)
            )
        except KeyboardInterrupt:
            interrupted = True
            judged = without_look(ran, "the gate was interrupted before a second look")
        still = metronome.between(0.0, time.time())
    owed = debt.known()
    minutes, seconds = divmod(int(time.monotonic() - began), 60)
    title = f"== commit {commit}, seed {seed}, {minutes}:{seconds:02} min; {still}; {folder}"
    new = debt.new_lines(judged, owed)
    summary = Summary(title, ran, judged, owed, new, seed, folder, interrupted, notes)
    done = dict.fromkeys(each.stage.slice for each in ran if each.stage.slice)
    for each in ran:
        if each.postponed:
            done.pop(each.stage.slice, None)
    _write(folder, summary, new_line(tested_commit(), done, time.monotonic() - began))
    say("\n".join(summary.lines()))
    return _INTERRUPTED if interrupted else min(summary.failed, 1)


def _run_all(
    settings: Settings,
    choice: Choice,
    folder: Path,
    seed: str,
    seconds_left: Callable[[], float],
) -> Iterator[Ran]:
    """Set up and run each stage; a red set-up or a red stage with `ends_early` ends the run."""
    whole = seconds_left()
    if settings.environments:
        yield (set_up := _set_up(settings, folder, seed, seconds_left()))
        if set_up.is_red:
            return
    always = [each for each in settings.stages if not each.slice]
    took = 0.0
    for stage in always:
        if (limit := min(stage.limit, seconds_left())) <= 0:
            yield Ran(stage, 0.0, None, "not run: no time was left", folder)
            continue
        yield (ran := run_stage(stage, folder, stage.file_name, limit, seed))
        took += ran.seconds
        if ran.is_red and stage.ends_early:
            return
    usual = sum(each.usual for each in always)
    slowness = max(1.0, took / usual) if usual else 1.0
    for name in (*choice.touched, *choice.turn):
        passed = whole - seconds_left()
        for stage in [each for each in settings.stages if each.slice == name]:
            if name in choice.turn and passed > settings.slices_begin_within:
                yield _postponed(stage, folder, f"since {passed:.0f} s have passed")
            else:
                yield _run_slice(stage, folder, seed, slowness, seconds_left())


def _run_slice(stage: Stage, folder: Path, seed: str, slowness: float, left: float) -> Ran:
    """Run a stage of a slice, if there is time.

    A slow machine must not make a slice red: the stage begins only if its usual time, scaled, is
    left. Otherwise it is postponed, and so is a stage that has not ended when no time is left. A
    stage that had twice the time that it needs hangs, and is red.
    """
    if left <= (needed := stage.usual * slowness):
        why = f"it needs about {needed:.0f} s, and {max(left, 0.0):.0f} s are left"
        return _postponed(stage, folder, why)
    ran = run_stage(stage, folder, stage.file_name, min(stage.limit, left), seed)
    if ran.was_ended and left < min(stage.limit, _HANGS_AFTER * needed):
        return replace(ran, trouble="", postponed=f"it had not ended after {ran.seconds:.0f} s")
    return ran


def _postponed(stage: Stage, folder: Path, why: str) -> Ran:
    """A stage that a later gate runs."""
    return Ran(stage, 0.0, None, "", folder, postponed=why)


def _set_up(settings: Settings, folder: Path, seed: str, seconds: float) -> Ran:
    """Make all environments side by side."""
    began = time.monotonic()
    logs = {
        folder / f"set-up-{number}.log": arguments
        for number, arguments in enumerate(settings.environments)
    }
    codes = run_side_by_side(logs, seconds, child_environment(seed))
    took = time.monotonic() - began
    failed = [log for log, code in zip(logs, codes, strict=True) if code != 0]
    trouble = "; ".join(f"make {' '.join(logs[log])} failed" for log in failed)
    log = failed[0] if failed else folder
    return Ran(Stage("set-up", (), seconds, pytest=False), took, None, trouble, log)


def _show(ran: Ran) -> None:
    """Print a stage, the text of its failures, and the end of its log if it is red by itself."""
    say(stage_line(ran))
    failures = ran.results.failures if ran.results else ()
    for failure in failures[:_SHOWN_FAILURES]:
        say(f"--- {failure.test} ({failure.kind})")
        say("\n".join(failure.text.splitlines()[-_SHOWN_LINES:]))
    if ran.trouble and ran.log.is_file():
        say(f"--- the end of {ran.log}")
        say("\n".join(ran.log.read_text(errors="replace").splitlines()[-_SHOWN_LINES:]))


def _write(folder: Path, summary: Summary, line: str) -> None:
    """Write failures, new unsteady tests, the ledger's line of a green run, and the summary."""
    files = {
        "failures.jsonl": [each.as_json() for each in summary.judged],
        "unsteady.tsv": summary.new,
        "ledger.tsv": [] if summary.failed else [line],
        "summary.txt": summary.lines(),
    }
    for name, lines in files.items():
        text = "".join(f"{line}\n" for line in lines)
        with suppress(OSError):  # a full disk does not hide the report
            (folder / name).write_text(text, encoding="utf-8", errors="backslashreplace")


def _interrupt(*_: object) -> None:
    """End the stages' processes as Ctrl-C does."""
    raise KeyboardInterrupt


def say(text: str) -> None:
    """Print lines at once, with any characters."""
    sys.stdout.buffer.write(f"{text}\n".encode(errors="backslashreplace"))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        say("interrupted\n0 passed, 1 failed")
        sys.exit(_INTERRUPTED)
    except Exception:  # noqa: BLE001 - after any error, the last line is the closing one
        say(f"{traceback.format_exc()}\nthe gate itself failed\n0 passed, 1 failed")
        sys.exit(1)
