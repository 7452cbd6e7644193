"""The application on the listener of `[admin]`: the API below `/api`, the screens elsewhere."""

from starlette.types import ASGIApp, Receive, Scope, Send

from inboxd.admin.forwarded import Forwarded
from inboxd.model.addresses import Networks
from inboxd.settings import Admin


class AdminSite:
    def __init__(self, settings: Admin, api: ASGIApp, screens: ASGIApp) -> None:
        self._api, self._screens = api, screens
        self._seen = Forwarded(self._one, settings.path, Networks(settings.trusted_proxies))
        self.under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.under_way += 1
        try:
            await self._seen(scope, receive, send)
        finally:
            self.under_way -= 1

    async def _one(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].removeprefix(scope["root_path"])
        is_api = path == "/api" or path.startswith("/api/")
        await (self._api if is_api else self._screens)(scope, receive, send)
