"""The renderer: each text, however hostile, stays text and changes no element of a page.

*See:* `tests/screens` and `tests/browser`, for pages with rows of a database.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markupsafe import Markup
from starlette.datastructures import QueryParams

from inboxd.admin.screens import addresses
from inboxd.admin.screens.formatting import FILTERS
from inboxd.admin.screens.pages.paging import ListPart
from inboxd.admin.screens.rendering import LANGUAGES, Renderer
from inboxd.admin.screens.views import SavedView
from inboxd.operations.failures import ArchivedGroup
from inboxd.operations.labels import Label
from inboxd.operations.lookup import Hit

PREFIX = "/ops"
NOW = datetime(2026, 3, 29, 1, tzinfo=UTC)
RENDERER = Renderer()
# Marks with a meaning in HTML, attributes, URLs, templates, `str.format` or Markdown.
MARKS = st.sampled_from(
    [
        *("<", ">", "&", '"', "'", "`", "{", "}", "{{", "}}", "{%", "%}", "{0}", "{n}", "%s", "\\"),
        *("<script>", "</main>", "<main ", "</title>", "<!--", "-->", "]]>", "javascript:", "//"),
        *("&lt;", "&#60;", "onerror=", " ", "\n", "\0", "\u202e", "\u2028", "\ufeff", "\x1b"),
    ]
)
TEXTS = st.lists(MARKS | st.text(max_size=5), max_size=8).map("".join).filter(str.strip)
HARMLESS = "x"


class _Page(HTMLParser):
    """Elements with the names of their attributes; the links; and the text that a person reads."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.leads: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note each element except `code`, which back quotes in a sentence make."""
        if tag != "code":
            self.elements.append((tag, tuple(name for name, _ in attrs)))
        self.leads += [v or "" for name, v in attrs if name in ("href", "src", "action")]

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        """Note a comment; pages have none."""
        self.elements.append(("!--", (data,)))

    def handle_decl(self, decl: str) -> None:
        self.elements.append(("!", (decl,)))

    def handle_pi(self, data: str) -> None:
        self.elements.append(("?", (data,)))

    def unknown_decl(self, data: str) -> None:
        self.elements.append(("![", (data,)))


def _around(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that each page gets, with those of this page."""
    return {
        "base": "base.html",
        "trouble": None,
        "frozen": None,
        "read_age": 0.0,
        "statements": (),
        "label": None,
        "colour": "gray",
        "visitor": None,
        "can": lambda _: True,
        "has": lambda _: True,
        "path": "/x",
        "query": QueryParams(),
        **values,
    }


def _error(text: str) -> tuple[str, dict[str, Any]]:
    return "error.html", {"status": 404, "phrase": "Not Found", "detail": f"no {text} here"}


def _find(text: str) -> tuple[str, dict[str, Any]]:
    hits = [Hit("uuid", "event", 1, text, text, "failed"), Hit("name", "topic", None, text)]
    return "find.html", {
        "text": text,
        "hits": [(hit, addresses.path_of("topics", text)) for hit in hits],
        "titles": {"event": {text: text}, "command": {}},
        "looked_at": 500,
        "filters": [("events", text, addresses.with_query("/events", [("tenant", text)]))],
    }


def _failures(text: str, archived: ArchivedGroup | None = None) -> tuple[str, dict[str, Any]]:
    group = {
        "kind": "event",
        "fingerprint": text,
        "error": text,
        "types": {text: 1},
        "count": 1,
        "at_least": True,
        "first_at": NOW,
        "last_at": NOW,
        "last_id": 1,
        "archived": archived,
    }
    return "failures.html", {
        "total": 1,
        "total_cut": True,
        "part": ListPart([group], text, 1),
        "groups": [group],
        "titles": {"event": {text: Label(text, text)}},
        "key": lambda _: text,
        "on": (),
        "trends": {text: [None, 1, 2]},
        "archived": archived is not None,
        "others": 1,
        "now": NOW,
        "query": QueryParams({"q": text}),
    }


def _archived(text: str) -> tuple[str, dict[str, Any]]:
    return _failures(text, ArchivedGroup(NOW, text, text))


def _views(text: str) -> tuple[str, dict[str, Any]]:
    return "views.html", {
        "all_views": [SavedView(text, "/events", "type=a.b")],
        "list": "/events",
        "filter": text,
        "most": 20,
        "longest": 40,
    }


PAGES: list[Callable[[str], tuple[str, dict[str, Any]]]] = [
    *(_error, _find, _failures, _archived, _views)
]


def _draw(page: Callable[[str], tuple[str, dict[str, Any]]], text: str, language: str) -> str:
    template, values = page(text)
    return RENDERER.html(template, language, PREFIX, _around(values))


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("page", PAGES)
@given(text=TEXTS)
@example(text="<script>alert(1)</script>")
@example(text="\"'><main id=page onload=alert(1)>")
@example(text="{{ 7 * 7 }}{n}{0.__class__}%s")
def test_any_text_is_only_text(
    page: Callable[[str], tuple[str, dict[str, Any]]], language: str, text: str
) -> None:
    html = _draw(page, text, language)
    found, harmless = _Page(html), _Page(_draw(page, HARMLESS, language))
    assert found.elements == harmless.elements
    assert all(each.startswith((f"{PREFIX}/", "#", "?")) for each in found.leads), found.leads
    # The application cuts a page at its main element, so no text may add another.
    assert html.count("<main ") == 1
    assert all(word in _plain(found.text) for word in _plain(text).split()[:1])


def _plain(text: str) -> str:
    """The text without back quotes, which a sentence turns into `code`, NUL and U+FFFD."""
    return text.translate(dict.fromkeys(map(ord, "`\0\ufffd")))


@given(text=TEXTS, name=st.sampled_from(sorted(FILTERS)))
def test_no_filter_makes_markup_of_a_text(text: str, name: str) -> None:
    try:
        made = FILTERS[name](text)
    except (TypeError, ValueError, AttributeError, KeyError):
        return  # the filter takes no text
    if isinstance(made, Markup):
        assert not set(text) & set("<>&\"'"), made
