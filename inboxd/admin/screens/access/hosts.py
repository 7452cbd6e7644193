"""Checks the host name of a request, and that a form comes from the screens.

Promises: a foreign host name that points at this address (DNS rebinding) is refused; a form of
another site is refused by `Sec-Fetch-Site`, or else by `Origin`. `X-Forwarded-Host` of a trusted
proxy is checked in addition to `Host`, never in its place: a script can set the former, but not the
latter.
"""

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final

from starlette.requests import Request

from inboxd.admin.answers import RequestRefused
from inboxd.admin.forwarded import last_of
from inboxd.model.addresses import Networks, normal_peer

_ALWAYS: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_HOST = re.compile(
    r"(?P<name>\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(?::(?P<port>\d{1,5}))?"
)
_PORTS: Final = {"http": "80", "https": "443"}
_LONGEST = 80


class Hosts:
    def __init__(self, names: Iterable[str], proxies: Networks) -> None:
        """names: in addition to those of loopback. proxies: their X-Forwarded-Host is read."""
        self._names = _ALWAYS | {each.lower() for each in names}
        self._proxies = proxies

    def origin(self, request: Request) -> str:
        """The browser's scheme, host and port. Raises RequestRefused."""
        given = request.headers.getlist("host")
        host = self._ours(given[0] if len(given) == 1 else "", request)
        forwarded = request.headers.get("x-forwarded-host")
        if forwarded is not None and normal_peer(request.client) in self._proxies:
            host = self._ours(last_of(forwarded), request)
        return f"{request.scope['scheme']}://{host}"

    def _ours(self, text: str, request: Request) -> str:
        found = _HOST.fullmatch(text)
        if found is None or found["name"].lower() not in self._names:
            shown = ascii(text[:_LONGEST])
            detail = (
                f"the host {shown} is not a name of the screens: open them by localhost, or add "
                "the name to hosts in [admin]"
            )
            raise RequestRefused(HTTPStatus.FORBIDDEN, detail)
        name, port = found["name"].lower(), found["port"]
        default = _PORTS.get(request.scope["scheme"])
        return name if port in (None, default) else f"{name}:{port}"


def refuse_other_origin(request: Request, own: str) -> None:
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site == "same-origin" or (site is None and origin is not None and origin.lower() == own):
        return
    detail = (
        "this form came from another site, or from no page: send it from the screens; behind a "
        "proxy, set trusted_proxies in [admin], so that the screens know their own address"
    )
    raise RequestRefused(HTTPStatus.FORBIDDEN, detail)
