"""Actions on the screens, by the forms that a browser would send.

Example:
    asked = await ask(client, "/act/commands/replay?id=1")  # the page with the form
    answer = await confirm(client, asked, reason="mended")  # its form
    told = await act(client, "/act/commands/replay?id=2")  # both; the sentence of the result

Promises that a form is sent with the fields of the page, except those that the test types.
"""

from html.parser import HTMLParser
from typing import NamedTuple

import httpx

from tests.screens.reading import Read
from tests.screens.visiting import SAME


class ReadForm(HTMLParser):
    """The form that confirms the action: its address, and its fields with their values."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.action, self.method = "", ""
        self.fields: dict[str, str] = {}
        self._within = False
        self._area: str | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
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
        if tag == "form":
            self._within = False
        if tag == "textarea":
            self._area = None

    def handle_data(self, data: str) -> None:
        if self._area is not None:
            before = self.fields[self._area]
            # A browser reads CR LF in a page as one newline, drops a newline at the beginning of a
            # textarea, and sends each other newline as CR LF.
            data = data.replace("\r\n", "\n")
            more = data if before else data.removeprefix("\n")
            self.fields[self._area] = before + more.replace("\n", "\r\n")


class Asked(NamedTuple):
    """The page of an action: its text, its HTML and its form."""

    text: str
    html: str
    form: ReadForm


async def ask(client: httpx.AsyncClient, path: str) -> Asked:
    """Open the page of an action, which must answer 200."""
    answer = await client.get(path)
    assert answer.status_code == 200, f"{path}: {answer.status_code} {Read(answer.text).text}"
    form = ReadForm(answer.text)
    return Asked(Read(answer.text).text, answer.text, form)


async def confirm(client: httpx.AsyncClient, asked: Asked, **typed: str) -> httpx.Response:
    """Send the form of a page, with the values typed."""
    data = asked.form.fields | typed
    return await client.post(asked.form.action, data=data, headers=SAME)


async def act(client: httpx.AsyncClient, path: str, **typed: str) -> str:
    """Confirm an action that must succeed; return the sentence of its result."""
    asked = await ask(client, path)
    assert "On a terminal inboxd " in asked.text, path
    page = await confirm(client, asked, **typed)
    if 'id="secret"' not in page.text:  # the answer contains a secret
        assert page.status_code == 303, f"{path}: {page.status_code} {Read(page.text).text}"
        page = await client.get(page.headers["location"])
    assert page.status_code == 200, (page.url, page.status_code)
    _, _, told = page.text.partition('id="told"')
    return told.partition("<span>")[2].partition("</span>")[0]
