"""Tabs of a browser that tell what went wrong in them.

Promises that a test fails if a page of it opened a dialog, broke the content security policy, told
an error on the console, or asked another host for anything.
"""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import axe_playwright_python
from anyio import move_on_after
from playwright.async_api import Browser, BrowserContext, Page

from tests.support.waiting import patient

_AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text("utf-8")
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_VIOLATIONS = """
document.addEventListener("securitypolicyviolation",
  (e) => console.error(`policy violated: ${e.violatedDirective} ${e.blockedURI}`));
"""


class Tabs:
    """Those of one test."""

    def __init__(self, browser: Browser, url: str) -> None:
        """Open none yet."""
        self.wrong: list[str] = []
        self.url = url
        self._browser = browser
        self._contexts: list[BrowserContext] = []

    async def open(
        self,
        path: str = "/",
        *,
        width: int = 1440,
        theme: str = "light",
        script: bool = True,
        zone: str | None = None,
        zoom: int = 1,
    ) -> Page:
        """A tab of a browser of its own, which shows a page.

        zone: where it is, such as "UTC". zoom: how many times as large the page is shown.
        """
        context = await self._browser.new_context(
            base_url=self.url,
            timezone_id=zone,
            viewport={"width": width // zoom, "height": 900 // zoom},
            device_scale_factor=zoom,
            color_scheme="dark" if theme == "dark" else "light",
            java_script_enabled=script,
            reduced_motion="reduce",
        )
        context.set_default_timeout(1000 * patient())
        self._contexts.append(context)
        await context.add_init_script(_VIOLATIONS)
        return await self._show(context, path)

    async def beside(self, tab: Page, path: str = "/") -> Page:
        """One more tab of the same browser."""
        return await self._show(tab.context, path)

    async def _show(self, context: BrowserContext, path: str) -> Page:
        page = await context.new_page()
        self._watch(page)
        await page.goto(path)
        return page

    def _watch(self, page: Page) -> None:
        page.on("pageerror", lambda error: self.wrong.append(f"{page.url}: {error}"))
        page.on(
            "console",
            lambda said: (
                self.wrong.append(f"{page.url}: {said.text}")
                if said.type in ("error", "warning")
                else None
            ),
        )
        page.on("request", lambda asked: self._judge(asked.url))

        async def dismiss(dialog: Any) -> None:
            self.wrong.append(f"{page.url}: a dialog: {dialog.message}")
            await dialog.dismiss()

        page.on("dialog", dismiss)

    def _judge(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("data", "blob") and parts.netloc != urlsplit(self.url).netloc:
            self.wrong.append(f"another host was asked: {url}")

    async def close(self) -> None:
        """Close all, and hold that nothing went wrong.

        Chromium may never answer, where a page is just being loaded; it ends with its module.
        """
        for context in self._contexts:
            with move_on_after(patient(5)):
                await context.close()
        assert self.wrong == []


async def barriers(page: Page) -> list[str]:
    """What keeps people from using a page, as axe finds it: WCAG 2.2, levels A and AA."""
    await page.evaluate(_AXE)
    found = await page.evaluate(
        "(tags) => axe.run({runOnly: {type: 'tag', values: tags}, resultTypes: ['violations']})",
        _RULES,
    )
    return [
        f"{each['id']}: {node['html'][:200]} {node['failureSummary']}"
        for each in found["violations"]
        for node in each["nodes"][:3]
    ]


async def overflow(page: Page) -> int:
    """By how many pixels the page is wider than its window."""
    return int(
        await page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
    )
