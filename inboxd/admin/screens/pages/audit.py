"""The audit: the actions of operators; a filter searches at most some thousand entries."""

import re
from collections.abc import Iterator
from typing import Final, get_args

from inboxd.admin.screens import addresses
from inboxd.admin.screens.pages.queries import command_of, page_size, row_number, texts
from inboxd.admin.screens.screen import PageVisit, ScreenPage
from inboxd.admin.screens.whole_inbox import whole_inbox
from inboxd.operations import actions
from inboxd.store import bulk_actions
from inboxd.store.operations import Audited, AuditFilter

_FILTERS: Final = ("actor", "action", "target")
# Targets that have pages: rows by their numbers, or one thing by its number.
_ROWS: Final = re.compile(r"(events|commands) (\d+(?:, \d+)*)")
_ONE: Final = re.compile(r"(batch|workflow|action) (\d+)")


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
        "parts_of": _parts_of,
        "ordered": await bulk_actions.ordered_by(visit.session, [row["id"] for row in found.rows]),
        "found": found,
        "full": len(found.rows) == wanted.limit,
        "command": command_of("inboxd audit", query, _FILTERS),
    }
    return ScreenPage("audit.html", found.document(), shown)


def _parts_of(target: str) -> Iterator[tuple[str, str | None]]:
    """Each part has the address of its page, if it has one."""
    if rows := _ROWS.fullmatch(target):
        for place, number in enumerate(rows[2].split(", ")):
            if place:
                yield ", ", None
            yield number if place else f"{rows[1]} {number}", addresses.path_of(rows[1], number)
    elif one := _ONE.fullmatch(target):
        yield target, addresses.path_of("actions" if one[1] == "action" else "batches", one[2])
    else:
        kind, _, name = target.partition(" ")
        yield target, addresses.of_name(kind, name) if name else None


SCREENS = (whole_inbox("/audit", _audit),)
