"""Pages as a test reads them: their links, and what a person sees of them."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser

import httpx

from inboxd.admin.screens.pages import SCREENS

_WITHOUT_TEXT = ("script", "style", "datalist")
_PATHS = [re.compile(re.sub(r"\{\w+\}", "[^/?]+", screen.path) + r"(\?.*)?") for screen in SCREENS]


class Read(HTMLParser):
    """The part of a page that is its own: what is within `main`."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self._texts: list[str] = []
        self._within: list[str] = []
        self.feed(page)

    @property
    def text(self) -> str:
        """What a person reads."""
        return " ".join(" ".join(self._texts).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A tag begins."""
        if tag == "main" or tag in _WITHOUT_TEXT:
            self._within.append(tag)
        if "main" not in self._within:
            return
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag == "a":
            hrefs = [value for name, value in attrs if name == "href" and value]
            # Not a page's own JSON.
            self.links += [each for each in hrefs if not each.partition("?")[0].endswith(".json")]

    def handle_endtag(self, tag: str) -> None:
        """A tag ends."""
        if tag in self._within:
            self._within.remove(tag)

    def handle_data(self, data: str) -> None:
        """Text."""
        if "main" in self._within and not set(self._within) & set(_WITHOUT_TEXT):
            self._texts.append(data)


async def read(screens: httpx.AsyncClient, path: str) -> Read:
    """A page that is there."""
    answer = await screens.get(path, headers={"accept": "text/html"}, follow_redirects=True)
    assert answer.status_code == 200, f"{path}: {answer.status_code} {Read(answer.text).text}"
    return Read(answer.text)


async def document(screens: httpx.AsyncClient, path: str) -> object:
    """The JSON of a page."""
    answer = await screens.get(path, headers={"accept": "application/json"})
    assert answer.status_code == 200, answer.text
    found: object = answer.json()
    return found


def known(links: list[str]) -> Iterator[str]:
    """Those that lead to pages that there are, without the part behind `#`."""
    for link in links:
        path = link.partition("#")[0]
        if any(pattern.fullmatch(path) for pattern in _PATHS):
            yield path
