"""Sign-ins at an OpenID provider: the redirects there and back, and the visitor's role.

Promises: only a group, or `"*"`, gives a role; other settings of the provider end earlier sign-ins;
no code, token or secret is in a page, an error or the log. Known limits: the groups at the sign-in
decide the role until it ends; signing out here leaves the visitor signed in at the provider.
"""

import hmac
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import orjson
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from inboxd.admin.screens.access.contract import Entrance, Show
from inboxd.admin.screens.access.cookies import keep_session, prefix_of
from inboxd.admin.screens.access.flows import SignInFlow, SignInFlows
from inboxd.admin.screens.access.provider_errors import (
    ProviderNotBelieved,
    ProviderUnreachable,
    said_of,
)
from inboxd.admin.screens.access.sessions import Sessions, SignedIn
from inboxd.admin.screens.access.signed_texts import SignedTexts
from inboxd.admin.screens.access.wanted import FORM, PROVIDER, safe
from inboxd.admin.screens.roles import Role, Visitor
from inboxd.admin.screens.screen import ScreenPage
from inboxd.admin.throttle import Throttle
from inboxd.errors import SettingsError
from inboxd.model.addresses import Networks, client_address, normal_peer, subscriber
from inboxd.settings import AdminOidc
from inboxd.settings.secrets import read_secret
from inboxd.telemetry.logs import get_logger

if TYPE_CHECKING:
    from inboxd.admin.screens.access.provider import OidcProvider

_log = get_logger(__name__)

_CALLBACK: Final = f"{PROVIDER}/callback"
_ANYBODY: Final = "*"
_LONGEST_NAME, _LONGEST_CODE = 200, 4096
# Failed sign-ins of one address, a second and at once.
_RATE, _BURST = 1 / 5, 20
# Modules of the extra `oidc`.
_NEEDED: Final = ("aiohttp", "joserfc")


class _NobodySignedIn(Exception):
    """page: the name of the message that the page shows. reason: for the log."""

    def __init__(self, page: str, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.page, self.status = page, status


class OidcSignIn:
    def __init__(
        self,
        settings: AdminOidc,
        sessions: Sessions,
        texts: SignedTexts,
        proxies: Networks,
        origin: Callable[[Request], str],
    ) -> None:
        """origin: gives the browser's scheme and host. Raises SettingsError."""
        self._settings, self._sessions, self._proxies = settings, sessions, proxies
        self._origin = origin
        self._provider = _provider(settings)
        self._flows = SignInFlows(texts)
        self._throttle = Throttle(_RATE, _BURST)
        self._roles = {group: Role[role.upper()] for group, role in settings.roles.items()}
        # A sign-in ends when these settings change, since they could give another role.
        self._basis = orjson.dumps(
            ["oidc", settings.model_dump(mode="json")], option=orjson.OPT_SORT_KEYS
        ).decode()
        self.name = urlsplit(settings.issuer).netloc

    def visitor(self, signed_in: SignedIn) -> Visitor | None:
        """None: the provider's settings have changed since."""
        if not hmac.compare_digest(self._sessions.mark(self._basis), signed_in.mark):
            return None
        name = signed_in.name
        return Visitor(name, Role[signed_in.role], f"oidc {name}", signed_in=True)

    def entrances(self, show: Show, page: Callable[[str, str], ScreenPage]) -> Sequence[Entrance]:
        """page: makes a page from where to go on and why."""

        async def begin(request: Request) -> Response:
            to = safe(request.query_params.get("to", "/"))
            try:
                return await self._begin(request, to)
            except _NobodySignedIn as refused:
                return told(request, refused, to)

        async def callback(request: Request) -> Response:
            state = request.query_params.get("state", "")
            flow = self._flows.take(request, state)
            try:
                response = await self._come_back(request, flow)
            except _NobodySignedIn as refused:
                response = told(request, refused, flow.to if flow else "/")
            self._flows.forget(request, response, state)
            return response

        def told(request: Request, refused: _NobodySignedIn, to: str) -> Response:
            address = self._address(request)
            _log.warning("a sign-in is refused", reason=str(refused), address=address)
            return show(request, page(to, refused.page), refused.status)

        return (
            Entrance(PROVIDER, "GET", begin),
            Entrance(_CALLBACK, "GET", callback, again=FORM),
        )

    async def _begin(self, request: Request, to: str) -> Response:
        flow = self._flows.begin(to)
        with _refusing():
            address = await self._provider.address(flow, self._redirect(request))
        response = RedirectResponse(address, HTTPStatus.SEE_OTHER)
        self._flows.keep(request, response, flow)
        return response

    async def _come_back(self, request: Request, flow: SignInFlow | None) -> Response:
        query = request.query_params
        address = self._address(request)
        guesser = [f"address {subscriber(address) if address else '-'}"]
        if self._throttle.is_spent(guesser):
            reason = "too many failed sign-ins"
            raise _NobodySignedIn("throttled", HTTPStatus.TOO_MANY_REQUESTS, reason)
        self._throttle.spend(guesser)
        if flow is None:
            raise _NobodySignedIn(
                "stale", HTTPStatus.BAD_REQUEST, "this browser has not started this sign-in"
            )
        code = query.get("code", "")
        if "error" in query or not 0 < len(code) <= _LONGEST_CODE:
            reason = f"the provider sends no code: {said_of(query.get('error'))}"
            raise _NobodySignedIn("denied", HTTPStatus.FORBIDDEN, reason)
        with _refusing():
            claims = await self._provider.claims(
                flow, self._redirect(request), code, query.get("iss")
            )
        name, role = self._name(claims), self._role(claims)
        self._throttle.forgive(guesser)
        _log.info("signed in to the screens", user=name, role=role.name.lower(), address=address)
        response = RedirectResponse(prefix_of(request) + flow.to, HTTPStatus.SEE_OTHER)
        begun = self._sessions.begin(name, self._basis, role.name)
        keep_session(request, response, self._sessions, begun)
        return response

    def _name(self, claims: Mapping[str, Any]) -> str:
        claim = self._settings.user_claim
        name = claims.get(claim)
        if not (isinstance(name, str) and name.isprintable() and 0 < len(name) <= _LONGEST_NAME):
            reason = f"the claim {claim} is not a name of at most {_LONGEST_NAME} characters"
            raise _NobodySignedIn("nameless", HTTPStatus.FORBIDDEN, reason)
        if claim == "email" and claims.get("email_verified") is False:
            reason = "the provider has not verified the email address that is the user's name"
            raise _NobodySignedIn("nameless", HTTPStatus.FORBIDDEN, reason)
        return name

    def _role(self, claims: Mapping[str, Any]) -> Role:
        claim = self._settings.groups_claim
        found = None if claim is None else claims.get(claim)
        given = found if isinstance(found, list) else [found]
        # A group that is really called "*" must not count as everybody.
        groups = [_ANYBODY, *(each for each in given if isinstance(each, str) and each != _ANYBODY)]
        roles = [self._roles[each] for each in groups if each in self._roles]
        if not roles:
            raise _NobodySignedIn(
                "no_role", HTTPStatus.FORBIDDEN, "none of the user's groups has a role"
            )
        return max(roles)

    def _redirect(self, request: Request) -> str:
        """The provider must know this address. Raises RequestRefused."""
        return f"{self._origin(request)}{prefix_of(request)}{_CALLBACK}"

    def _address(self, request: Request) -> str | None:
        return client_address(normal_peer(request.client), request.headers, self._proxies)


@contextmanager
def _refusing() -> Iterator[None]:
    """Turn the provider's failures into _NobodySignedIn."""
    try:
        yield
    except ProviderUnreachable as error:
        raise _NobodySignedIn("unreachable", HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from None
    except ProviderNotBelieved as error:
        raise _NobodySignedIn("not_believed", HTTPStatus.BAD_GATEWAY, str(error)) from None


def _provider(settings: AdminOidc) -> "OidcProvider":
    """Raises SettingsError without the extra or the secret."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise SettingsError(
            f"[admin.oidc] needs {' and '.join(missing)}, which is not installed: "
            "pip install 'inboxd[oidc]'"
        )
    from inboxd.admin.screens.access.provider import OidcProvider  # noqa: PLC0415 - an extra

    file = settings.client_secret_file
    secret = None if file is None else read_secret(file)
    if secret == "":
        raise SettingsError(f"[admin.oidc]: client_secret_file {file} is empty")
    return OidcProvider(settings, secret)
