"""How a browser sees what is served here: under which prefix, and whether it is encrypted.

Owns `X-Forwarded-Proto` and `X-Forwarded-Prefix`, and the prefix of the settings. Promises that
both kinds of proxy work, one that takes the prefix off and one that leaves it, and that these
headers count from trusted proxies alone; a prefix is a path of plain segments, so that no link
leaves this host.
Known limit: a page whose first segment is called as the prefix cannot be told from it.
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
    """An application that is seen through a proxy, or not."""

    def __init__(self, app: ASGIApp, path: str, proxies: Networks) -> None:
        """`path`: the prefix where no proxy says another."""
        self._app, self._path, self._proxies = app, path, proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the prefix as `root_path`, whether or not the path still has it."""
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
    """What the nearest proxy said, of a header to which each may add."""
    return header.rpartition(",")[2].strip()


def _is_prefix(text: str) -> bool:
    segments = text.split("/")
    plain = _PREFIX.fullmatch(text) is not None and not {".", ".."} & set(segments)
    return plain and len(text) <= _LONGEST
