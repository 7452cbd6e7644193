"""Tabs of a browser that fail a test if an error happened in them.

Example:
    tab = await tabs.open("/events", width=360, theme="dark")
    assert await barriers(tab) == []
    assert await overflow(tab) <= 0

Promises that a test fails if one of its pages opened a dialog, violated the content security
policy, logged an error or a warning on the console, or sent a request to another host.
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
    """The tabs that one test opens."""

    def __init__(self, browser: Browser, url: str) -> None:
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
        """Open a tab of a browser of its own at `path`.

        zone: the visitor's time zone, such as "UTC". zoom: magnification, as a whole number.
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
        """Open one more tab of the same browser."""
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
        """Close all tabs, and fail if an error happened in one.

        Chromium may never answer while a page loads; it ends after the module.
        """
        for context in self._contexts:
            with move_on_after(patient(5)):
                await context.close()
        assert not self.wrong, "\n".join(self.wrong)


async def barriers(page: Page) -> list[str]:
    """Violations of WCAG 2.2, levels A and AA, and of best practices, as axe finds them."""
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
    """Pixels by which the page is wider than its window."""
    return int(
        await page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
    )
