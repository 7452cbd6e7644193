"""The doctor: what is wrong with the inbox, and what to do.

Promises that an examination is shared by all visitors of a process for `_FRESH` seconds, and is cut
off after `_SECONDS`; the page says how old it is, and what was not looked at.
Known limit: what waits on the disks of receivers is for `inboxd doctor` on their hosts.
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

_FRESH: Final = 30.0
# For all of it, and for each statement: a page has to be there within five.
_SECONDS: Final = 3.0
_STATEMENT: Final = 1.0


@dataclass(frozen=True, slots=True)
class Examination:
    """One of the inbox. left: groups that were not looked at, or not to their end."""

    document: dict[str, Any]
    at: float
    took: float
    left: list[str]


async def _doctor(visit: PageVisit) -> ScreenPage:
    own = await visit.shared.get(visit.session, "doctor", _FRESH, partial(_examine, visit))
    if own is None:
        raise DatabaseError("the database was lost while it was looked at: try again in a while")
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
    async with aclosing(doctor.examine(visit.session, visit.settings, _STATEMENT)) as findings:
        async for group, finding in findings:
            found.append((group, finding))
            if monotonic() - begun >= _SECONDS:
                groups = list(GROUPS)
                left = groups[groups.index(group) :]
                break
    at = monotonic()
    return Examination(doctor.document(found), at, at - begun, left)


SCREENS = (whole_inbox("/doctor", _doctor),)
