"""Visitors named by a proxy: oauth2-proxy, Authelia, Tailscale, a web server with a login.

Promises that only `trusted_proxies` are believed, and that a request with two headers for the name
is refused. Known limit: every program that connects from such an address can claim any name, so the
proxy must be alone at its address.
"""

from http import HTTPStatus

from starlette.requests import Request

from inboxd.admin.answers import RequestRefused
from inboxd.admin.screens.roles import Role, Visitor
from inboxd.model.addresses import Networks, normal_peer
from inboxd.settings import AdminProxy

_LONGEST = 200
_ANYBODY = "*"


class NamedByProxy:
    def __init__(self, settings: AdminProxy, proxies: Networks) -> None:
        self._settings, self._proxies = settings, proxies
        self._roles = {group: Role[role.upper()] for group, role in settings.roles.items()}

    def visitor(self, request: Request) -> Visitor | None:
        """None: no name, or no trusted proxy. Raises RequestRefused."""
        names = request.headers.getlist(self._settings.user_header)
        if not names or normal_peer(request.client) not in self._proxies:
            return None
        name = names[0].strip()
        if len(names) > 1 or not name.isprintable() or not 0 < len(name) <= _LONGEST:
            detail = (
                f"the proxy must send {self._settings.user_header} once, with a name of at most "
                f"{_LONGEST} characters"
            )
            raise RequestRefused(HTTPStatus.FORBIDDEN, detail)
        roles = [self._roles[each] for each in self._groups(request) if each in self._roles]
        if not roles:
            detail = "none of your groups has a role here: roles in [admin.proxy] assigns them"
            raise RequestRefused(HTTPStatus.FORBIDDEN, detail)
        return Visitor(name, max(roles), f"proxy {name}")

    def _groups(self, request: Request) -> list[str]:
        header = self._settings.groups_header
        given = [] if header is None else request.headers.getlist(header)
        # A group that is really called "*" must not count as everybody.
        named = [group.strip() for each in given for group in each.split(",")]
        return [_ANYBODY, *(each for each in named if each != _ANYBODY)]
