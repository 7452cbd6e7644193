"""A finding: a figure, a verdict, and a remedy.

Owns the verdicts and their order. Promises that the thresholds of verdicts are in one table
(`thresholds`), never inside a check. Known limit: texts are English.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Unit = Literal["", "seconds", "rows", "bytes", "transactions", "share", "days"]


class Verdict(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    NOTICE = "notice"  # worth knowing; nothing to do today
    WARNING = "warning"  # it gets worse, or works only by luck: act today
    CRITICAL = "critical"  # rows are held up, or safety is lost: act now

    @property
    def rank(self) -> int:
        """Return 0 for ok up to 3 for critical."""
        return list(Verdict).index(self)


@dataclass(frozen=True, slots=True)
class Levels:
    """The figures from which a notice, a warning or critical begins; None: never."""

    notice: float | None
    warning: float | None
    critical: float | None

    def find(
        self, subject: str, figure: float, unit: Unit, found: str, remedy: str = ""
    ) -> "Finding":
        """Make a finding with the verdict for its figure."""
        return Finding(subject, self.judge(figure), found, remedy, figure, unit)

    def judge(self, figure: float) -> Verdict:
        """Return the verdict for a figure; larger is worse."""
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
    """One finding. remedy: empty if the verdict is ok.

    figure: the number behind the verdict, in `unit`; None for a finding without a number.
    """

    subject: str
    verdict: Verdict
    found: str
    remedy: str = ""
    figure: float | None = None
    unit: Unit = ""

    def __post_init__(self) -> None:
        if self.verdict is Verdict.OK:
            object.__setattr__(self, "remedy", "")


def worst(*verdicts: Verdict) -> Verdict:
    """Return the worst verdict; ok without any."""
    return max(verdicts, key=lambda verdict: verdict.rank, default=Verdict.OK)
