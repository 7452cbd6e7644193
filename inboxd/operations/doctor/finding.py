"""What a look found: a figure, a verdict, and what to do.

Owns the words of a verdict and their order. Promises that a verdict comes from one table
(`thresholds`), never from a number inside a check. Known limit: texts are English.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Unit = Literal["", "seconds", "rows", "bytes", "transactions", "share", "days"]


class Verdict(StrEnum):
    """How bad it is."""

    OK = "ok"
    NOTICE = "notice"  # worth knowing; nothing need be done today
    WARNING = "warning"  # it gets worse, or something rests on luck: do it today
    CRITICAL = "critical"  # rows are held up, or safety is lost: do it now

    @property
    def rank(self) -> int:
        """0 for ok, 3 for critical."""
        return list(Verdict).index(self)


@dataclass(frozen=True, slots=True)
class Levels:
    """From which figure on something is worth a notice, a warning, or is critical; None: never."""

    notice: float | None
    warning: float | None
    critical: float | None

    def find(
        self, subject: str, figure: float, unit: Unit, found: str, remedy: str = ""
    ) -> "Finding":
        """What was found, with the verdict on its figure."""
        return Finding(subject, self.judge(figure), found, remedy, figure, unit)

    def judge(self, figure: float) -> Verdict:
        """The verdict on a figure, of which more is worse."""
        levels = (
            (self.critical, Verdict.CRITICAL),
            (self.warning, Verdict.WARNING),
            (self.notice, Verdict.NOTICE),
        )
        for level, verdict in levels:
            if level is not None and figure >= level:
                return verdict
        return Verdict.OK


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: the subject, what was found, how bad that is, and what to do unless it is ok.

    figure: the number behind the verdict, in `unit`; None where there is none.
    """

    subject: str
    verdict: Verdict
    found: str
    remedy: str = ""
    figure: float | None = None
    unit: Unit = ""

    def __post_init__(self) -> None:
        """A remedy may be given whatever the verdict is."""
        if self.verdict is Verdict.OK:
            object.__setattr__(self, "remedy", "")


def worst(*verdicts: Verdict) -> Verdict:
    """The gravest of them; ok, if there is none."""
    return max(verdicts, key=lambda verdict: verdict.rank, default=Verdict.OK)
