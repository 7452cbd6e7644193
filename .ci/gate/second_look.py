"""A second look: a test that failed runs again when all stages are over, alone.

Red again is red. Green is unsteady: reported, and a debt (`debt`). Some failures get no second
look: a violation of safety, since an effect that took place twice may take place once the next
time; a test that skipped itself, which would again; and all of them if there are too many, because
then the tree is broken. A violation is repeated for the record.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from gate.metronome import Metronome, StoodStill
from gate.results import Failure
from gate.running import Ran, alone, run_stage
from gate.settings import Stage

MOST_FAILURES = 8
REPETITIONS = 10
# A repetition for the record is not worth the end of the run.
_RECORD_SECONDS = 600.0


@dataclass(frozen=True)
class Judged:
    """A failed test, and whether it is red; `told` says why, or what the second look was like."""

    failure: Failure
    stood_still: StoodStill
    is_red: bool
    told: str

    def as_json(self) -> str:
        """One line, with all that is known of the failure."""
        known = asdict(self.failure) | {"red": self.is_red, "told": self.told}
        return json.dumps(known | {"stood_still": self.stood_still.total}, ensure_ascii=False)


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
    judged = []
    for number, failure in enumerate(failures):
        looks = _Looks(stages, folder, seed, seconds_left, f"again-{number}")
        is_red, told = _judge(failure, len(failures), looks)
        stood_still = metronome.between(failure.began, failure.ended)
        judged.append(Judged(failure, stood_still, is_red, told))
    return judged


@dataclass(frozen=True)
class _Looks:
    stages: Mapping[str, Stage]
    folder: Path
    seed: str
    seconds_left: Callable[[], float]
    name: str

    def passes(self, failure: Failure, name: str = "", most: float = float("inf")) -> bool | None:
        """Run the test once; None if there is no time left for that."""
        stage = alone(self.stages[failure.stage], failure.test)
        seconds = min(self.seconds_left(), stage.limit, most)
        if seconds <= 0:
            return None
        ran = run_stage(stage, self.folder, self.name + name, seconds, self.seed)
        return not ran.is_red and bool(ran.results and ran.results.passed)


def _judge(failure: Failure, failures: int, looks: _Looks) -> tuple[bool, str]:
    if failure.kind == "missing":
        return True, "no test may be skipped"
    if failures > MOST_FAILURES:
        return True, f"{failures} tests failed: more than {MOST_FAILURES} get no second look"
    if failure.kind == "violation":
        return True, _for_the_record(failure, looks)
    match looks.passes(failure):
        case None:
            return True, "no time was left for a second look"
        case True:
            return False, "green in a second look, alone"
        case _:
            return True, "red again, alone"


def _for_the_record(failure: Failure, looks: _Looks) -> str:
    outcomes = []
    for repetition in range(REPETITIONS):
        most = _RECORD_SECONDS / REPETITIONS
        if (outcome := looks.passes(failure, f"-{repetition}", most)) is None:
            break
        outcomes.append(outcome)
    red = outcomes.count(False)
    return f"safety gets no second look; repeated alone: red {red} times of {len(outcomes)}"
