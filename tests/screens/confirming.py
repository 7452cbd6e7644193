"""Actions on the screens, as somebody at a browser does them: the page with the form, and then it.

Promises that what is sent is what the page has, and nothing else unless a test says so.
"""

from html.parser import HTMLParser
from typing import NamedTuple

import httpx

from tests.screens.reading import Read
from tests.screens.visiting import SAME


class ReadForm(HTMLParser):
    """The form that does the action: its address and its fields as they stand."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.action, self.method = "", ""
        self.fields: dict[str, str] = {}
        self._within = False
        self._area: str | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A tag begins."""
        of = {name: value or "" for name, value in attrs}
        if tag == "form" and of.get("class") == "confirm":
            self._within, self.action, self.method = True, of["action"], of["method"]
        if not self._within or "name" not in of:
            return
        if tag == "input" and (of.get("type") not in ("checkbox", "radio") or "checked" in of):
            self.fields[of["name"]] = of.get("value", "")
        if tag == "textarea":
            self._area, self.fields[of["name"]] = of["name"], ""

    def handle_endtag(self, tag: str) -> None:
        """A tag ends."""
        if tag == "form":
            self._within = False
        if tag == "textarea":
            self._area = None

    def handle_data(self, data: str) -> None:
        """Text."""
        if self._area is not None:
            before = self.fields[self._area]
            # To a browser a newline of two characters is one as it reads the page; it leaves the
            # first one out, and sends the others as two.
            data = data.replace("\r\n", "\n")
            more = data if before else data.removeprefix("\n")
            self.fields[self._area] = before + more.replace("\n", "\r\n")


class Asked(NamedTuple):
    """The page that asks."""

    text: str
    html: str
    form: ReadForm


async def ask(client: httpx.AsyncClient, path: str) -> Asked:
    """Open the page of an action."""
    answer = await client.get(path)
    assert answer.status_code == 200, f"{path}: {answer.status_code} {Read(answer.text).text}"
    form = ReadForm(answer.text)
    return Asked(Read(answer.text).text, answer.text, form)


async def confirm(client: httpx.AsyncClient, asked: Asked, **typed: str) -> httpx.Response:
    """Send the form of a page."""
    data = asked.form.fields | typed
    return await client.post(asked.form.action, data=data, headers=SAME)


async def act(client: httpx.AsyncClient, path: str, **typed: str) -> str:
    """Do an action that may be done, and read what is told on the page that it leads to."""
    asked = await ask(client, path)
    assert "On a terminal inboxd " in asked.text, path
    answer = await confirm(client, asked, **typed)
    assert answer.status_code == 303, f"{path}: {answer.status_code} {Read(answer.text).text}"
    page = await client.get(answer.headers["location"])
    assert page.status_code == 200, (answer.headers["location"], page.status_code)
    _, _, told = page.text.partition('id="told"')
    return told.partition("<span>")[2].partition("</span>")[0]
