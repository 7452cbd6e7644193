"""Pages in Portuguese have no English words: neither a text without a translation, nor a value.

Known limit: the doctor's findings are in English, as on the command line.
"""

from html.parser import HTMLParser

import httpx
import pytest

from inboxd.admin.screens import rendering
from tests.screens.visits import EXAMINED, VISITS, write_rows
from tests.support import Database

pytestmark = pytest.mark.anyio

LANGUAGE = "pt-BR"
# Elements whose contents are data, or for a program.
_DATA = frozenset({"code", "pre", "script", "style", "textarea", "option"})


class _Noting(dict[str, str]):
    """A catalogue that keeps the texts that it lacks."""

    def __init__(self, texts: dict[str, str]) -> None:
        super().__init__(texts)
        self.lacks: set[str] = set()

    def get(self, key: str, default: str = "") -> str:  # type: ignore[override]
        if key not in self and any(map(str.isalpha, key)):
            self.lacks.add(key)
        return super().get(key, default)

    def knows(self, text: str) -> bool:
        """Whether a text has a translation, and is not a translation itself."""
        return dict.get(self, text, text) != text and text not in self.values()


class _Texts(HTMLParser):
    """The texts between the tags of a page, each with its element and its classes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self._within: list[tuple[str, str]] = []
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link", "input", "br", "img", "use", "hr"):
            self._within.append((tag, dict(attrs).get("translate") or ""))

    def handle_endtag(self, tag: str) -> None:
        while self._within and self._within.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if data.strip() and not any(tag in _DATA or no for tag, no in self._within):
            self.found.append(data.strip())


@pytest.fixture
def catalogue(monkeypatch: pytest.MonkeyPatch) -> _Noting:
    noting = _Noting(dict(rendering._texts(LANGUAGE)))
    monkeypatch.setattr(rendering, "_texts", lambda _: noting)
    return noting


async def test_pages_have_no_english_words(
    database: Database, screens: httpx.AsyncClient, catalogue: _Noting
) -> None:
    rows = await write_rows(database)
    raw: set[tuple[str, str]] = set()
    for path in (each.format(**rows) for paths in VISITS.values() for each in paths):
        cookie = {"cookie": f"inboxd_language={LANGUAGE}"}
        answer = await screens.get(path, headers=cookie, follow_redirects=True)
        assert answer.is_success, path
        texts = _Texts(answer.text).found
        if path != EXAMINED:
            raw |= {(path, text) for text in texts if catalogue.knows(text)}
    assert (catalogue.lacks, raw) == (set(), set()), (
        f"texts without a translation: {sorted(catalogue.lacks)};"
        f" words that have one, shown in English: {sorted(raw)}"
    )
