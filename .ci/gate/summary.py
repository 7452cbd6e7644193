"""The end of a run: at most forty lines, of which the last one is the plain closing line."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gate import debt
from gate.running import Ran, as_command, for_one_test
from gate.second_look import Judged

MOST_LINES = 40
_WIDTH = 200


@dataclass(frozen=True)
class Summary:
    """The results of a run. owed: the tests of the ledger. new: lines to be added to it.

    notes: lines below the title.
    """

    title: str
    ran: Sequence[Ran]
    judged: Sequence[Judged]
    owed: Sequence[str]
    new: Sequence[str]
    seed: str
    folder: Path
    interrupted: bool = False
    notes: Sequence[str] = ()

    @property
    def unsteady(self) -> int:
        """The number of unsteady tests, including new ones."""
        return len(self.owed) + len(self.new)

    @property
    def failed(self) -> int:
        """Red tests, stages red by themselves, too large a debt, an interruption."""
        red = sum(each.is_red for each in self.judged)
        red += sum(bool(each.trouble) for each in self.ran)
        return red + (self.unsteady > debt.MOST) + self.interrupted

    @property
    def passed(self) -> int:
        """Tests that passed, including unsteady ones."""
        whole = sum(each.results.passed for each in self.ran if each.results)
        return whole + sum(not each.is_red for each in self.judged)

    def lines(self) -> list[str]:
        """At most forty lines; the last one is the plain closing line."""
        head = [self.title, *self.notes, *map(stage_line, self.ran)]
        foot = ["RED: the gate was interrupted"] if self.interrupted else []
        if self.unsteady:
            red = "RED: " if self.unsteady > debt.MOST else ""
            tests = "1 unsteady test" if self.unsteady == 1 else f"{self.unsteady} unsteady tests"
            foot.append(f"{red}{tests}; {debt.MOST} are allowed (.ci/unsteady.tsv)")
        foot.append(f"{self.passed} passed, {self.failed} failed")
        ranked = sorted(self.judged, key=lambda each: not each.is_red)
        told = [self._entry(each) for each in ranked]
        room = MOST_LINES - len(head) - len(foot)
        body: list[str] = []
        for number, entry in enumerate(told):
            left = len(told) - number
            if len(body) + len(entry) + (left > 1) > room:
                body.append(f"… and {left} tests more: {self.folder}/failures.jsonl")
                break
            body += entry
        return [*head, *body[: max(room, 0)], *foot]

    def _entry(self, judged: Judged) -> list[str]:
        failure = judged.failure
        stage = next(each.stage for each in self.ran if each.stage.name == failure.stage)
        word = "RED" if judged.is_red else "INHERITED" if judged.is_inherited else "UNSTEADY"
        return [
            f"{word} {failure.test} ({failure.stage}; {failure.kind}; {judged.told})",
            f"    {failure.error[:_WIDTH]}; {judged.pause}",
            f"    {as_command(for_one_test(stage, failure.test), self.seed)}",
        ]


def stage_line(ran: Ran) -> str:
    """A stage with its seconds and its counts."""
    counts = []
    if ran.postponed:
        counts.append(f"postponed, {ran.postponed}")
    if ran.results:
        counts.append(f"{ran.results.passed} passed")
        if ran.results.failures:
            counts.append(f"{len(ran.results.failures)} failed")
    elif not ran.postponed:
        counts.append("failed" if ran.trouble else "passed")
    if ran.trouble:
        counts.append(f"RED: {ran.trouble} ({ran.log})")
    return f"{ran.stage.name:<32}{ran.seconds:>6.0f} s  {', '.join(counts)}"
