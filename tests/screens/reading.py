"""Pages as tests read them.

Example:
    page = await read(screens, "/events")  # text that a person reads, links, tags
    found = await document(screens, "/events")  # the page's JSON
"""

import re
from collections.abc import Iterator
from html.parser import HTMLParser

import httpx

from inboxd.admin.screens.pages import SCREENS

_WITHOUT_TEXT = ("script", "style", "datalist")
_PATHS = [re.compile(re.sub(r"\{\w+\}", "[^/?]+", screen.path) + r"(\?.*)?") for screen in SCREENS]


class Read(HTMLParser):
    """The content of a page, which is within `main`: its text, links, tags and attributes."""

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
        return " ".join(" ".join(self._texts).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "main" or tag in _WITHOUT_TEXT:
            self._within.append(tag)
        if "main" not in self._within:
            return
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag == "a":
            hrefs = [value for name, value in attrs if name == "href" and value]
            # Links to the page's own JSON are left out.
            self.links += [each for each in hrefs if not each.partition("?")[0].endswith(".json")]

    def handle_endtag(self, tag: str) -> None:
        if tag in self._within:
            self._within.remove(tag)

    def handle_data(self, data: str) -> None:
        if "main" in self._within and not set(self._within) & set(_WITHOUT_TEXT):
            self._texts.append(data)


async def read(screens: httpx.AsyncClient, path: str) -> Read:
    """Open a page, which must answer 200."""
    answer = await screens.get(path, headers={"accept": "text/html"}, follow_redirects=True)
    assert answer.status_code == 200, f"{path}: {answer.status_code} {Read(answer.text).text}"
    return Read(answer.text)


async def document(screens: httpx.AsyncClient, path: str) -> object:
    """The JSON of a page, which must answer 200."""
    answer = await screens.get(path, headers={"accept": "application/json"})
    assert answer.status_code == 200, answer.text
    found: object = answer.json()
    return found


def known(links: list[str]) -> Iterator[str]:
    """The links to pages of the screens, without their fragments."""
    for link in links:
        path = link.partition("#")[0]
        if any(pattern.fullmatch(path) for pattern in _PATHS):
            yield path
