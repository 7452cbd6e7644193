"""The doctor: problems of the inbox, and their remedies.

Promises that all visitors of a process share an examination for `_FRESH_SECONDS`, and that it stops
after `_MOST_SECONDS`; the page shows its age, and the groups that were not examined.
Known limit: spools on the disks of receivers need `inboxd doctor` on their hosts.
*See:* `operations/doctor/`, which the command line's `doctor` prints too.
"""

from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, Final

from inboxd.admin.screens.screen import PageVisit, ScreenPage
from inboxd.admin.screens.whole_inbox import whole_inbox
from inboxd.errors import DatabaseError
from inboxd.operations import doctor
from inboxd.operations.doctor import GROUPS, Finding, Verdict

_FRESH_SECONDS: Final = 30.0
# For the whole examination, and for each statement: a page has five seconds in all.
_MOST_SECONDS: Final = 3.0
_STATEMENT_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Examination:
    """One examination. left: groups that were not examined, or only in part."""

    document: dict[str, Any]
    at: float
    took: float
    left: list[str]


async def _doctor(visit: PageVisit) -> ScreenPage:
    own = await visit.shared.get(visit.session, "doctor", _FRESH_SECONDS, partial(_examine, visit))
    if own is None:
        raise DatabaseError("the examination lost the database: try again in a moment")
    findings = own.document["findings"]
    bad = [each for each in findings if each["verdict"] != Verdict.OK]
    shown = {
        "age": monotonic() - own.at,
        "took": own.took,
        "left": own.left,
        "bad": sorted(bad, key=lambda each: -each["verdict"].rank),
        "groups": {
            group: [each for each in findings if each["group"] == group]
            for group in dict.fromkeys(each["group"] for each in findings)
        },
        "verdicts": [(verdict, _count(findings, verdict)) for verdict in reversed(Verdict)],
    }
    return ScreenPage("doctor.html", own.document, shown)


def _count(findings: list[dict[str, Any]], verdict: Verdict) -> int:
    return sum(each["verdict"] == verdict for each in findings)


async def _examine(visit: PageVisit) -> Examination:
    begun = monotonic()
    found: list[tuple[str, Finding]] = []
    left: list[str] = []
    async with aclosing(
        doctor.examine(visit.session, visit.settings, _STATEMENT_SECONDS)
    ) as findings:
        async for group, finding in findings:
            found.append((group, finding))
            if monotonic() - begun >= _MOST_SECONDS:
                groups = list(GROUPS)
                left = groups[groups.index(group) :]
                break
    at = monotonic()
    return Examination(doctor.document(found), at, at - begun, left)


SCREENS = (whole_inbox("/doctor", _doctor),)
