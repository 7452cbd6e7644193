"""A finding: a figure, a verdict, and a remedy; `thresholds` has the limits of all verdicts."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Unit = Literal["", "seconds", "rows", "bytes", "transactions", "share", "days"]


class Verdict(StrEnum):
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
        return Finding(subject, self.judge(figure), found, remedy, figure, unit)

    def judge(self, figure: float) -> Verdict:
        """A larger figure is worse."""
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
    """figure: in `unit`; None: without a number. remedy: empty if the verdict is ok."""

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
    """Return ok without any verdict."""
    return max(verdicts, key=lambda verdict: verdict.rank, default=Verdict.OK)
