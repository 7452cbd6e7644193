"""A second look: a test that failed runs again when all stages are over, alone.

Red again is red. Green is unsteady: reported, and a debt (`debt`). These get no second look: a
violation of safety, since a race that repeats an effect may not appear in the next run; a test that
skipped itself, since it would do so again; and all failures if there are too many, because then the
tree is broken. After all second looks, a violation is repeated for the record.
"""

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from gate.metronome import Metronome, StoodStill
from gate.results import Failure
from gate.running import Ran, for_one_test, run_stage

MOST_FAILURES = 8
REPETITIONS = 10
# For all repetitions together, so that the report still has its time.
RECORD_SECONDS = 600.0

Seen = Literal["green", "red", "not run"]
# Runs a test again within this many seconds; the name is that of its files.
Look = Callable[[Failure, str, float], Seen]


@dataclass(frozen=True)
class Judged:
    """A failed test, and whether it is red; `told` has the reason, or the second look's result."""

    failure: Failure
    stood_still: StoodStill | None
    is_red: bool
    told: str
    is_inherited: bool = False

    @property
    def pause(self) -> str:
        """The text about the machine's pauses during the test."""
        return (
            "the time of the test is not known"
            if self.stood_still is None
            else str(self.stood_still)
        )

    def as_json(self) -> str:
        """The line of JSON for `failures.jsonl`."""
        known = asdict(self.failure) | {"red": self.is_red, "told": self.told, "pause": self.pause}
        return json.dumps(known)


def look_again(
    ran: Iterable[Ran],
    folder: Path,
    seed: str,
    metronome: Metronome,
    seconds_left: Callable[[], float],
) -> list[Judged]:
    """Judge each failed test of these stages."""
    stages = {each.stage.name: each.stage for each in ran}
    failures = [f for each in ran if each.results for f in each.results.failures]

    def look(failure: Failure, name: str, seconds: float) -> Seen:
        stage = for_one_test(stages[failure.stage], failure.test)
        limit = min(stage.limit, seconds, seconds_left())
        if limit <= 0:
            return "not run"
        again = run_stage(stage, folder, name, limit, seed)
        if again.was_ended and limit < stage.limit:
            return "not run"
        return "red" if again.is_red or not (again.results and again.results.passed) else "green"

    told = _judge(failures, look)
    return [
        Judged(
            failure,
            metronome.between(failure.began, failure.ended) if failure.ended else None,
            *told[number],
        )
        for number, failure in enumerate(failures)
    ]


def without_look(ran: Iterable[Ran], reason: str) -> list[Judged]:
    """All failures of these stages, red for a reason."""
    failures = [f for each in ran if each.results for f in each.results.failures]
    return [Judged(failure, None, is_red=True, told=reason) for failure in failures]


def _judge(failures: list[Failure], look: Look) -> dict[int, tuple[bool, str]]:
    """Whether each failure is red, and why; those that get a second look run first."""
    told: dict[int, tuple[bool, str]] = {}
    too_many = len({failure.test for failure in failures}) > MOST_FAILURES
    for number, failure in enumerate(failures):
        if failure.kind == "missing":
            told[number] = True, "no test may be skipped"
        elif too_many:
            told[number] = True, f"more than {MOST_FAILURES} tests failed: no second look"
        elif failure.kind != "violation":
            told[number] = _second_look(look(failure, f"again-{number}", float("inf")))
    record_ends = time.monotonic() + RECORD_SECONDS
    for number, failure in enumerate(failures):
        if number not in told:
            told[number] = True, _for_the_record(failure, look, f"record-{number}", record_ends)
    return told


def _second_look(seen: Seen) -> tuple[bool, str]:
    match seen:
        case "green":
            return False, "green in a second look, alone"
        case "red":
            return True, "red again, alone"
        case _:
            return True, "no time was left for a second look"


def _for_the_record(failure: Failure, look: Look, name: str, ends: float) -> str:
    seen: list[Seen] = []
    for repetition in range(REPETITIONS):
        outcome = look(failure, f"{name}-{repetition}", ends - time.monotonic())
        if outcome == "not run":
            break
        seen.append(outcome)
    if not seen:
        return "safety gets no second look; not repeated: no time was left"
    failed = seen.count("red")
    return f"safety gets no second look; repeated {len(seen)} times alone, {failed} failed"
