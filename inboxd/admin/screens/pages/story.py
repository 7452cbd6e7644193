"""The story of a row: its ancestors and all their descendants, as a tree and over time.

Known limit: a large story is cut; the story of a row at the cut shows the rest.
"""

from collections.abc import Iterable
from functools import partial
from typing import Final

from inboxd import operations
from inboxd.admin.screens import addresses
from inboxd.admin.screens.pages.queries import row_number
from inboxd.admin.screens.pages.titles import titles_of
from inboxd.admin.screens.screen import Elsewhere, PageVisit, Screen, ScreenPage
from inboxd.errors import UsageError
from inboxd.model.row_id import read_row_id
from inboxd.model.story import ENDS, RECEIPT
from inboxd.model.story_drawing import diagram, rest_of
from inboxd.model.story_markdown import markdown
from inboxd.model.story_times import WAITED, Waterfall

_KINDS: Final = ("event", "command", "batch", RECEIPT)
_ROWS: Final = 200
_EACH: Final = 10
_MOST_OF_EACH: Final = 100
_HAPPENED: Final = "happened"
# If the time since the last change is longer than this many times the story, bars are too small.
_MANY_TIMES: Final = 3


async def _story(visit: PageVisit) -> ScreenPage | Elsewhere:
    kind, id_ = visit.path["kind"], read_row_id(visit.path["id"])
    if kind == "workflow":  # it has a batch's number
        return Elsewhere(f"/story/batch/{id_}")
    if kind not in _KINDS:
        raise UsageError(f"{kind!r} is not a valid kind of row: {', '.join(_KINDS)}")
    each = min(row_number(visit.query, "each") or _EACH, _MOST_OF_EACH)
    found = await operations.trace(visit.session, id_, kind=kind, rows=_ROWS, each=each)
    if kind != RECEIPT and not isinstance(id_, int):
        return Elsewhere(f"/story/{kind}/{found.asked[1]}")
    nodes = list(found.top.walk())
    titles = {
        kind: await titles_of(
            visit, kind, {node.member.type for node in nodes if node.member.kind == kind}
        )
        for kind in ("event", "command")
    }
    document = found.document()
    # The axis ends now, unless the query asks for one that ends with the last change.
    happened = visit.query.get("axis") == _HAPPENED
    fall = found.waterfall(to_now=not happened)
    shown = {
        "kind": kind,
        "id": id_,
        "each": each,
        "more_of_each": _MOST_OF_EACH if each < _MOST_OF_EACH else None,
        "top": found.top,
        "count": len(nodes),
        "titles": titles,
        "ends": ENDS,
        "rest_of": rest_of,
        "mermaid": "\n".join(diagram(found.top)),
        "fall": fall,
        "left_out": sum(sum(node.hidden.values()) for node in nodes),
        "waited": WAITED,
        "axis": _HAPPENED if happened else None,
        "other_axis": _other_axis(found.waterfall(to_now=False), chosen=happened),
        "address": partial(addresses.with_query, f"/story/{kind}/{id_}", visit.query.multi_items()),
    }
    texts = {
        "md": lambda: _text(markdown(found.asked, found.waterfall(), earlier=found.earlier)),
        "mmd": lambda: _text(diagram(found.top)),
    }
    return ScreenPage("story.html", document, shown, texts)


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _other_axis(happened: Waterfall, *, chosen: bool) -> bool:
    since_then = (happened.now - happened.until).total_seconds()
    return chosen or (happened.goes_on and since_then > _MANY_TIMES * max(happened.seconds, 1.0))


SCREENS = (Screen("/story/{kind}/{id}", _story, texts=("md", "mmd")),)
