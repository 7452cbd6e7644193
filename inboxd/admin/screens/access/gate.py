"""Access to the screens of inboxd's own processes: the ways to identify a visitor, in order.

A bearer token comes first, since no browser sends one by itself. Promises: without a token, a
request with a host name that is not the screens' is refused; a visitor without a sign-in is
accepted only from this machine, and not through a proxy; a reload that adds users closes open
access, and a reload that removes users never opens it.
"""

import secrets
from collections.abc import Sequence
from http import HTTPStatus
from ipaddress import ip_address

from starlette.requests import Request
from starlette.responses import Response

from inboxd.admin.answers import RequestRefused
from inboxd.admin.screens.access.contract import Doorkeeper, Entrance, Show
from inboxd.admin.screens.access.hosts import Hosts
from inboxd.admin.screens.access.oidc import OidcSignIn
from inboxd.admin.screens.access.proxy import NamedByProxy
from inboxd.admin.screens.access.sessions import Sessions
from inboxd.admin.screens.access.sign_in import SignIn
from inboxd.admin.screens.access.signed_texts import SignedTexts
from inboxd.admin.screens.access.users import Users
from inboxd.admin.screens.roles import Role, Visitor
from inboxd.admin.tokens import Tokens, has_token
from inboxd.errors import SettingsError
from inboxd.model.addresses import Networks, normal_peer
from inboxd.settings import Admin
from inboxd.settings.secrets import read_secret

_LEAST_SECRET = 32
# Headers that a proxy adds to the requests that it forwards.
_BY_A_PROXY = ("forwarded", "x-forwarded-for", "x-real-ip", "via")


class Gate(Doorkeeper):
    def __init__(self, settings: Admin, tokens: Tokens) -> None:
        """Read the files of secrets. Raises SettingsError."""
        self._settings, self._tokens = settings, tokens
        proxies = Networks(settings.trusted_proxies)
        self._hosts = Hosts(settings.hosts, proxies)
        self._proxy = settings.proxy and NamedByProxy(settings.proxy, proxies)
        secret = _secret(settings)
        sessions = Sessions(secret, settings.session_idle, settings.session_lifetime)
        oidc: OidcSignIn | None = None
        if settings.oidc is not None:
            texts, origin = SignedTexts(secret), self._hosts.origin
            oidc = OidcSignIn(settings.oidc, sessions, texts, proxies, origin)
        self._sign_in = SignIn(Users(settings.users), sessions, proxies, oidc)
        # Users with passwords, or a provider.
        self._have_sign_ins = bool(settings.users or settings.oidc)
        self._open_role = settings.open_role

    def prepare(self, settings: Admin) -> Users:
        return Users(settings.users)

    def reload(self, settings: Admin, tokens: Tokens, users: Users) -> None:
        """Use these from the next request on."""
        self._tokens = tokens
        self._sign_in.reload(users)
        self._have_sign_ins = self._have_sign_ins or bool(settings.users)
        if settings.open_role is None:
            self._open_role = None

    async def visitor(self, request: Request) -> Visitor | Response:
        if has_token(request):
            return self._tokens.visitor(request)
        self._hosts.origin(request)
        if self._proxy and (named := self._proxy.visitor(request)):
            return named
        if self._have_sign_ins:
            return self._sign_in.visitor(request)
        if self._proxy:
            detail = "no trusted proxy names a user: open the screens through the proxy"
            raise RequestRefused(HTTPStatus.UNAUTHORIZED, detail)
        if self._open_role is None:
            detail = (
                "a token is required: send one, or set users, proxy, oidc or local_role in [admin]"
            )
            raise RequestRefused(HTTPStatus.UNAUTHORIZED, detail)
        _refuse_from_elsewhere(request)
        return Visitor(None, Role[self._open_role.upper()], "screens")

    def entrances(self, show: Show) -> Sequence[Entrance]:
        def guarded(entrance: Entrance) -> Entrance:
            async def answer(request: Request) -> Response:
                self._hosts.origin(request)
                if not self._have_sign_ins:
                    detail = "there is no sign-in here: [admin] has neither users nor oidc"
                    raise RequestRefused(HTTPStatus.NOT_FOUND, detail)
                return await entrance.answer(request)

            return entrance._replace(answer=answer)

        return [guarded(each) for each in self._sign_in.entrances(show)]

    def origin(self, request: Request) -> str:
        return self._hosts.origin(request)

    def renew(self, request: Request, response: Response) -> None:
        if self._have_sign_ins:
            self._sign_in.renew(request, response)


def _secret(settings: Admin) -> bytes:
    """This key signs the cookies. Raises SettingsError."""
    if settings.session_secret_file is None:
        return secrets.token_bytes(_LEAST_SECRET)
    secret = read_secret(settings.session_secret_file)
    if len(secret) < _LEAST_SECRET:
        raise SettingsError(
            f"[admin]: session_secret_file {settings.session_secret_file} has less than "
            f"{_LEAST_SECRET} characters and could be guessed: make a longer one with "
            "`openssl rand -hex 32`"
        )
    return secret.encode()


def _refuse_from_elsewhere(request: Request) -> None:
    """Refuse requests from other machines or through proxies. Raises RequestRefused."""
    peer = normal_peer(request.client)
    if peer is None or not ip_address(peer).is_loopback:
        detail = "without a sign-in, the screens are for this machine alone: set users in [admin]"
        raise RequestRefused(HTTPStatus.FORBIDDEN, detail)
    if any(name in request.headers for name in _BY_A_PROXY):
        detail = (
            "this request came through a proxy, so its sender is unknown: set users, or proxy and "
            "trusted_proxies, in [admin]"
        )
        raise RequestRefused(HTTPStatus.FORBIDDEN, detail)
