"""The audit: the actions of operators, with actor, time, reason and number of rows.

Promises that a filter searches at most some thousand entries, and that the page shows how far.

*See:* `operations/audit.py`, which the command line's `audit` prints too.
"""

from typing import Final, get_args

from inboxd.admin.screens.pages.queries import command_of, page_size, row_number, texts
from inboxd.admin.screens.screen import PageVisit, ScreenPage
from inboxd.admin.screens.whole_inbox import whole_inbox
from inboxd.operations import actions
from inboxd.store.operations import Audited, AuditFilter

_FILTERS: Final = ("actor", "action", "target")


async def _audit(visit: PageVisit) -> ScreenPage:
    query = visit.query
    given = texts(query, *_FILTERS)
    wanted = AuditFilter(
        actor=given["actor"],
        action=given["action"],
        target=given["target"],
        below=row_number(query, "below"),
        limit=page_size(query),
    )
    found = await actions(visit.session, wanted)
    words = sorted({each.partition(" ")[0] for each in get_args(Audited)})
    shown = {
        "words": words,
        "found": found,
        "full": len(found.rows) == wanted.limit,
        "command": command_of("inboxd audit", query, _FILTERS),
    }
    return ScreenPage("audit.html", found.document(), shown)


SCREENS = (whole_inbox("/audit", _audit),)
