"""The path prefix and the scheme (HTTP or HTTPS) that the browser uses, also behind a proxy.

Promises: a proxy may remove the prefix or leave it; headers count from trusted proxies alone; a
prefix has plain segments, so that no link leaves this host. Known limit: a path whose first segment
equals the prefix is taken to have it.
"""

import re
from collections.abc import MutableMapping
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from inboxd.model.addresses import Networks, normal_peer

_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)*/?")
_LONGEST = 200


class Forwarded:
    def __init__(self, app: ASGIApp, path: str, proxies: Networks) -> None:
        """path: the prefix, unless a trusted proxy sends another."""
        self._app, self._path, self._proxies = app, path, proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the prefix as `root_path`, whether or not the path still has it."""
        await self._app(self._seen(scope) if scope["type"] == "http" else scope, receive, send)

    def _seen(self, scope: Scope) -> Scope:
        prefix, scheme = self._path, str(scope["scheme"])
        if normal_peer(scope.get("client")) in self._proxies:
            headers = Headers(scope=scope)
            given = headers.get("x-forwarded-prefix")
            if given is not None and _is_prefix(given):
                prefix = given
            if (said := last_of(headers.get("x-forwarded-proto", ""))) in ("http", "https"):
                scheme = said
        prefix = prefix.rstrip("/")
        seen: MutableMapping[str, Any] = {**scope, "scheme": scheme, "root_path": prefix}
        path = str(scope["path"])
        if prefix and not f"{path}/".startswith(f"{prefix}/"):
            seen["path"] = prefix + path
        elif path == prefix:
            seen["path"] = f"{prefix}/"
        return seen


def last_of(header: str) -> str:
    """The last value of a header to which every proxy may append: that of the nearest proxy."""
    return header.rpartition(",")[2].strip()


def _is_prefix(text: str) -> bool:
    segments = text.split("/")
    plain = _PREFIX.fullmatch(text) is not None and not {".", ".."} & set(segments)
    return plain and len(text) <= _LONGEST
