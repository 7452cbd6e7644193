"""The doctor: problems of the inbox, and their remedies.

Promises that all visitors of a process share an examination for `_FRESH_SECONDS`, which stops after
`_MOST_SECONDS`. The overview, which must not fail because of the doctor, has a shorter one of its
own. Known limit: spools on the disks of receivers need `inboxd doctor` on their hosts.
"""

from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, Final

import anyio

from inboxd.admin.screens.screen import PageVisit, ScreenPage
from inboxd.admin.screens.whole_inbox import whole_inbox
from inboxd.errors import DatabaseError
from inboxd.operations import doctor
from inboxd.operations.doctor import GROUPS, Finding, Verdict

_FRESH_SECONDS: Final = 30.0
# For the whole examination, and for each statement: a page has five seconds in all.
_MOST_SECONDS: Final = 3.0
_STATEMENT_SECONDS: Final = 1.0
# For the overview, which begins an examination only if this much of its time is left.
_BRIEF_SECONDS: Final = 1.5
_LEFT_SECONDS: Final = 4.0


@dataclass(frozen=True, slots=True)
class Examination:
    """left: groups that were not examined, or only in part."""

    document: dict[str, Any]
    at: float
    took: float
    left: list[str]

    @property
    def age(self) -> float:
        """Seconds since the end of the examination."""
        return monotonic() - self.at

    def at_least(self, verdict: Verdict) -> list[dict[str, Any]]:
        """The gravest findings come first."""
        findings = self.document["findings"]
        found = [each for each in findings if each["verdict"].rank >= verdict.rank]
        return sorted(found, key=lambda each: -each["verdict"].rank)


async def _doctor(visit: PageVisit) -> ScreenPage:
    read = partial(_examine, visit, _MOST_SECONDS)
    own = await visit.shared.get(visit.session, "doctor", _FRESH_SECONDS, read)
    if own is None:
        raise DatabaseError("the examination lost the database: try again in a moment")
    findings = own.document["findings"]
    shown = {
        "age": own.age,
        "took": own.took,
        "left": own.left,
        "bad": own.at_least(Verdict.NOTICE),
        "groups": {
            group: [each for each in findings if each["group"] == group]
            for group in dict.fromkeys(each["group"] for each in findings)
        },
        "verdicts": [(verdict, _count(findings, verdict)) for verdict in reversed(Verdict)],
    }
    return ScreenPage("doctor.html", own.document, shown)


def _count(findings: list[dict[str, Any]], verdict: Verdict) -> int:
    return sum(each["verdict"] == verdict for each in findings)


async def examined_briefly(visit: PageVisit) -> Examination | None:
    """None: there was no time, or it failed."""

    async def read() -> Examination | None:
        left = anyio.current_effective_deadline() - anyio.current_time()
        return await _examine(visit, _BRIEF_SECONDS) if left >= _LEFT_SECONDS else None

    return await visit.shared.get(visit.session, "brief doctor", _FRESH_SECONDS, read)


async def _examine(visit: PageVisit, most: float) -> Examination:
    begun = monotonic()
    found: list[tuple[str, Finding]] = []
    left: list[str] = []
    async with aclosing(
        doctor.examine(visit.session, visit.settings, _STATEMENT_SECONDS)
    ) as findings:
        async for group, finding in findings:
            found.append((group, finding))
            if monotonic() - begun >= most:
                groups = list(GROUPS)
                left = groups[groups.index(group) :]
                break
    at = monotonic()
    return Examination(doctor.document(found), at, at - begun, left)


SCREENS = (whole_inbox("/doctor", _doctor),)
