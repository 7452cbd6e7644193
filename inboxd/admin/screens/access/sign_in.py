"""Signing in and out: a page with a form, or with a button to a provider, and a cookie.

Promises: it works without a script, and never leads to another site. Only opening a page prolongs a
sign-in; an open page that refreshes itself does not.
"""

import hmac
from collections.abc import Sequence
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from inboxd.admin.answers import RequestRefused
from inboxd.admin.screens.access.contract import Entrance, Show
from inboxd.admin.screens.access.cookies import (
    end_session,
    keep_session,
    prefix_of,
    session_of,
)
from inboxd.admin.screens.access.oidc import OidcSignIn
from inboxd.admin.screens.access.sessions import Sessions, SignedIn
from inboxd.admin.screens.access.users import Passwords, Users
from inboxd.admin.screens.access.wanted import FORM, PROVIDER, by_way_of, safe, wanted
from inboxd.admin.screens.addresses import with_query
from inboxd.admin.screens.forms import read_form
from inboxd.admin.screens.roles import Role, Visitor
from inboxd.admin.screens.screen import ScreenPage
from inboxd.model.addresses import Networks, client_address, normal_peer
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

_MOST_BODY, _MOST_FIELDS = 8 * 1024, 8
_LONGEST_NAME = 64


class SignIn:
    def __init__(
        self, users: Users, sessions: Sessions, proxies: Networks, oidc: OidcSignIn | None
    ) -> None:
        """proxies: trusted to name a visitor's address."""
        self._users, self._sessions, self._proxies = users, sessions, proxies
        self._oidc = oidc
        self._passwords = Passwords()

    def reload(self, users: Users) -> None:
        """Accept these users alone, from the next request on."""
        self._users = users

    def visitor(self, request: Request) -> Visitor | Response:
        """Raises RequestRefused for JSON, and for a page that refreshes itself."""
        signed_in = session_of(request, self._sessions)
        if signed_in is not None and (known := self._known(signed_in)) is not None:
            return known
        if "x-revision" in request.headers or not _wants_a_page(request):
            detail = "you are not signed in, or your sign-in has ended: open the page again"
            raise RequestRefused(HTTPStatus.UNAUTHORIZED, detail)
        way = PROVIDER if self._oidc and not self._users else FORM
        return RedirectResponse(by_way_of(request, way, wanted(request)), HTTPStatus.SEE_OTHER)

    def entrances(self, show: Show) -> Sequence[Entrance]:
        async def form(request: Request) -> Response:
            to = safe(request.query_params.get("to", "/"))
            return show(request, self._page(to), HTTPStatus.OK)

        async def sign_in(request: Request) -> Response:
            return await self._sign_in(request, show)

        return (
            Entrance(FORM, "GET", form),
            Entrance(FORM, "POST", sign_in),
            Entrance("/sign-out", "POST", self._sign_out),
            *(self._oidc.entrances(show, self._page) if self._oidc else ()),
        )

    def renew(self, request: Request, response: Response) -> None:
        signed_in = session_of(request, self._sessions)
        if signed_in is None or "x-revision" in request.headers or not self._known(signed_in):
            return
        if (renewed := self._sessions.renewed(signed_in)) is not None:
            keep_session(request, response, self._sessions, renewed)

    async def _sign_in(self, request: Request, show: Show) -> Response:
        fields = await read_form(request, _MOST_BODY, _MOST_FIELDS)
        name, to = fields.get("name", "")[:_LONGEST_NAME].strip(), safe(fields.get("to", "/"))
        address = client_address(normal_peer(request.client), request.headers, self._proxies)
        try:
            user = await self._passwords.user(
                self._users, name, fields.get("password", ""), address
            )
        except RequestRefused as error:
            _log.warning("a sign-in is refused", reason=str(error), address=address)
            return show(request, self._page(to, "throttled", name), error.status)
        if user is None:
            _log.warning("a sign-in is refused", reason="wrong name or password", address=address)
            return show(request, self._page(to, "wrong", name), HTTPStatus.FORBIDDEN)
        _log.info("signed in to the screens", user=user.name, address=address)
        response = RedirectResponse(prefix_of(request) + to, HTTPStatus.SEE_OTHER)
        begun = self._sessions.begin(user.name, user.password_hash.get_secret_value())
        keep_session(request, response, self._sessions, begun)
        return response

    async def _sign_out(self, request: Request) -> Response:
        signed_in = session_of(request, self._sessions)
        if signed_in is not None and self._known(signed_in):
            self._sessions.end(signed_in)
            _log.info("signed out of the screens", user=signed_in.name)
        response = RedirectResponse(prefix_of(request) + FORM, HTTPStatus.SEE_OTHER)
        end_session(request, response)
        return response

    def _known(self, signed_in: SignedIn) -> Visitor | None:
        """None: the provider's visitor is gone, or the user or the password has changed."""
        if signed_in.role:
            return self._oidc.visitor(signed_in) if self._oidc else None
        user = self._users.named(signed_in.name)
        if user is None:
            return None
        mark = self._sessions.mark(user.password_hash.get_secret_value())
        if not hmac.compare_digest(mark, signed_in.mark):
            return None
        tenants = None if user.tenants is None else frozenset(user.tenants)
        role, actor = Role[user.role.upper()], f"user {user.name}"
        return Visitor(user.name, role, actor, tenants, signed_in=True)

    def _page(self, to: str, refused: str | None = None, name: str = "") -> ScreenPage:
        provider = self._oidc.name if self._oidc else None
        shown = {
            "to": to,
            "name": name,
            "refused": refused,
            "provider": provider,
            "button": with_query(PROVIDER, [("to", to if to != "/" else "")]),
            "has_form": bool(self._users) or provider is None,
        }
        return ScreenPage("sign_in.html", {}, shown)


def _wants_a_page(request: Request) -> bool:
    accepted = request.headers.get("accept", "")
    asks_for_json = "application/json" in accepted and "text/html" not in accepted
    return not (asks_for_json or request.url.path.endswith(".json"))
