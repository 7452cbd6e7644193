"""An OpenID provider: its addresses, its keys, and its claims about a user.

Promises: an ID token counts only if the provider's own key signed it, by a public-key algorithm,
for this client and this sign-in, and if it is valid now; a provider that is slow, sends too much or
redirects is given up within seconds; no code, token or secret is in an error. Known limits:
metadata and keys are read again after minutes, and at once if a signature matches no key; encrypted
tokens are refused.
"""

import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

import aiohttp
import anyio
import orjson
from joserfc import jwt
from joserfc.errors import BadSignatureError, InvalidKeyIdError, JoseError
from joserfc.jwk import JWKRegistry, KeySet
from joserfc.jws import JWSRegistry

from inboxd.admin.screens.access.flows import SignInFlow
from inboxd.admin.screens.access.provider_errors import (
    ProviderNotBelieved,
    ProviderUnreachable,
    said_of,
)
from inboxd.settings import AdminOidc
from inboxd.settings.values import is_private_url

# Time limit for all requests of a sign-in; shorter than the time limit of a page.
_TIMEOUT_SECONDS = 4.0
_MOST_ANSWER = 512 * 1024
# Seconds for which metadata and keys are used again.
_KEPT_SECONDS = 300.0
# Only algorithms with a private key: with HS256, anybody who knows the client's secret could sign,
# or anybody who knows a public key, if that key is taken for the secret.
_ALGORITHMS: Final = [f"{kind}{bits}" for kind in ("RS", "PS", "ES") for bits in (256, 384, 512)]
_KEY_TYPES: Final = ("RSA", "EC")
# Seconds by which the provider's clock may differ.
_LEEWAY_SECONDS = 60


@dataclass(frozen=True, slots=True)
class ProviderMetadata:
    """posts_secret: the secret is sent in the form. tells_itself: it sends its name with a code."""

    authorization: str
    token: str
    keys: str
    userinfo: str | None
    posts_secret: bool
    tells_itself: bool


@dataclass(frozen=True, slots=True)
class _ReadProvider:
    metadata: ProviderMetadata
    keys: KeySet
    at: float


class _TokenRegistry(JWSRegistry):
    """The limits are larger: a user may have many groups, and providers add headers."""

    max_header_length = 4 * 1024
    max_payload_length = 128 * 1024


class OidcProvider:
    def __init__(
        self, settings: AdminOidc, secret: str | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings, self._secret, self._clock = settings, secret, clock
        self._registry = _TokenRegistry(algorithms=_ALGORITHMS, strict_check_header=False)
        self._claims = jwt.JWTClaimsRegistry(
            leeway=_LEEWAY_SECONDS,
            iss={"essential": True, "value": settings.issuer},
            aud={"essential": True, "value": settings.client_id},
            sub={"essential": True},
            exp={"essential": True},
            iat={"essential": True},
            nonce={"essential": True},
        )
        self._known: _ReadProvider | None = None

    async def address(self, flow: SignInFlow, redirect: str) -> str:
        """The address of the sign-in page. Raises ProviderUnreachable, ProviderNotBelieved."""
        with _in_time():
            known = await self._read()
        at = known.metadata.authorization
        query = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": redirect,
            "scope": " ".join(self._settings.scopes),
            "state": flow.state,
            "nonce": flow.nonce,
            "code_challenge": flow.challenge,
            "code_challenge_method": "S256",
        }
        return f"{at}{'&' if '?' in at else '?'}{urlencode(query)}"

    async def claims(
        self, flow: SignInFlow, redirect: str, code: str, issuer: str | None
    ) -> Mapping[str, Any]:
        """issuer: the name sent with the code. Raises ProviderUnreachable, ProviderNotBelieved."""
        with _in_time():
            known = await self._read()
            wanted = known.metadata.tells_itself or issuer is not None
            if wanted and issuer != self._settings.issuer:
                raise ProviderNotBelieved("the code is of another issuer")
            answer = await self._tokens(known.metadata, flow, redirect, code)
            token = answer.get("id_token")
            if not isinstance(token, str):
                raise ProviderNotBelieved("its answer has no ID token: scopes must have openid")
            claims = await self._believed(token, known, flow)
            return await self._with_more(known.metadata, answer, claims)

    async def _read(self, *, anew: bool = False) -> _ReadProvider:
        """They are at most `_KEPT_SECONDS` old."""
        known, now = self._known, self._clock()
        if known is None or anew or now - known.at >= _KEPT_SECONDS:
            metadata = await self._metadata()
            status, found = await _ask("GET", metadata.keys)
            if status != HTTPStatus.OK:
                raise ProviderUnreachable(f"the request for its keys was answered {status}")
            known = self._known = _ReadProvider(metadata, _keys(found), now)
        return known

    async def _metadata(self) -> ProviderMetadata:
        issuer = self._settings.issuer
        status, found = await _ask("GET", f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if status != HTTPStatus.OK:
            raise ProviderUnreachable(
                f"the request for its metadata was answered {status}: check issuer"
            )
        if found.get("issuer") != issuer:
            raise ProviderNotBelieved(
                "its metadata name another issuer: set issuer exactly as the metadata have it, "
                "including a slash at its end"
            )
        methods = found.get("token_endpoint_auth_methods_supported")
        basic = not isinstance(methods, list) or "client_secret_basic" in methods
        userinfo = found.get("userinfo_endpoint")
        return ProviderMetadata(
            _endpoint(found, "authorization_endpoint"),
            _endpoint(found, "token_endpoint"),
            _endpoint(found, "jwks_uri"),
            None if userinfo is None else _endpoint(found, "userinfo_endpoint"),
            posts_secret=not basic,
            tells_itself=found.get("authorization_response_iss_parameter_supported") is True,
        )

    async def _tokens(
        self, metadata: ProviderMetadata, flow: SignInFlow, redirect: str, code: str
    ) -> Mapping[str, Any]:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect,
            "code_verifier": flow.verifier,
        }
        headers: dict[str, str] = {}
        client = self._settings.client_id
        if self._secret is None:
            form["client_id"] = client
        elif metadata.posts_secret:
            form |= {"client_id": client, "client_secret": self._secret}
        else:  # RFC 6749, 2.3.1: each part is encoded as a form's
            login = f"{quote_plus(client)}:{quote_plus(self._secret)}"
            headers["authorization"] = f"Basic {b64encode(login.encode()).decode()}"
        status, answer = await _ask("POST", metadata.token, headers, form)
        if status != HTTPStatus.OK:
            said = said_of(answer.get("error"))
            raise ProviderNotBelieved(f"it gave no tokens for the code: {status}, {said}")
        return answer

    async def _believed(
        self, token: str, known: _ReadProvider, flow: SignInFlow
    ) -> Mapping[str, Any]:
        try:
            try:
                return self._checked(token, known.keys, flow)
            except (BadSignatureError, InvalidKeyIdError):
                fresh = await self._read(anew=True)  # its keys may have changed
                return self._checked(token, fresh.keys, flow)
        except JoseError as error:
            claim = f" {claim}" if isinstance(claim := getattr(error, "claim", None), str) else ""
            reason = f"its ID token is refused: {error.error}{claim}"
            raise ProviderNotBelieved(reason) from None

    def _checked(self, token: str, keys: KeySet, flow: SignInFlow) -> Mapping[str, Any]:
        try:
            claims = jwt.decode(token, keys, _ALGORITHMS, self._registry).claims
        except (TypeError, ValueError):  # for malformed texts
            raise ProviderNotBelieved("its ID token is refused: it is malformed") from None
        self._claims.validate(claims)
        if claims["nonce"] != flow.nonce:
            raise ProviderNotBelieved("its ID token is of another sign-in: the nonce differs")
        several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if (several or "azp" in claims) and claims.get("azp") != self._settings.client_id:
            raise ProviderNotBelieved("its ID token is for another client: azp differs")
        return claims

    async def _with_more(
        self, metadata: ProviderMetadata, answer: Mapping[str, Any], claims: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Ask the userinfo endpoint if some are missing."""
        settings, token = self._settings, answer.get("access_token")
        wanted = {settings.user_claim, settings.groups_claim} - {None}
        if wanted <= claims.keys() or metadata.userinfo is None or not isinstance(token, str):
            return claims
        if not (token.isascii() and token.isprintable()):
            raise ProviderNotBelieved("its access token is malformed")
        told = {"authorization": f"Bearer {token}"}
        status, more = await _ask("GET", metadata.userinfo, told)
        if status != HTTPStatus.OK or more.get("sub") != claims["sub"]:
            raise ProviderNotBelieved(
                f"its userinfo is of another user, or was answered {status} instead of 200"
            )
        return {**more, **claims}


async def _ask(
    method: str,
    url: str,
    headers: Mapping[str, str] | None = None,
    form: Mapping[str, str] | None = None,
) -> tuple[int, Mapping[str, Any]]:
    """Return {} without a JSON object. Raises ProviderUnreachable, ProviderNotBelieved."""
    told = {"accept": "application/json", "accept-encoding": "identity", **(headers or {})}
    body = bytearray()
    try:
        async with (
            aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session,
            session.request(method, url, headers=told, data=form, allow_redirects=False) as answer,
        ):
            async for part in answer.content.iter_any():
                body += part
                if len(body) > _MOST_ANSWER:
                    raise ProviderNotBelieved(f"its answer has more than {_MOST_ANSWER} bytes")
            status = answer.status
    except (aiohttp.ClientError, OSError) as error:
        raise ProviderUnreachable(f"it cannot be reached: {type(error).__name__}") from None
    try:
        found = orjson.loads(body)
    except ValueError:
        found = None
    return status, found if isinstance(found, dict) else {}


def _endpoint(found: Mapping[str, Any], name: str) -> str:
    url = found.get(name)
    if not isinstance(url, str) or not is_private_url(url) or "#" in url:
        raise ProviderNotBelieved(f"its metadata have no {name} with https")
    return url


def _keys(found: Mapping[str, Any]) -> KeySet:
    """Leave out keys for other uses and malformed ones."""
    given = found.get("keys")
    keys = []
    for each in given if isinstance(given, list) else ():
        if not (isinstance(each, dict) and each.get("kty") in _KEY_TYPES):
            continue
        if each.get("use", "sig") != "sig":
            continue
        with suppress(JoseError, TypeError, ValueError):
            keys.append(JWKRegistry.import_key(each))
    if not keys:
        raise ProviderNotBelieved("it has no RSA or EC key for signatures")
    return KeySet(keys)


@contextmanager
def _in_time() -> Iterator[None]:
    """Raises ProviderUnreachable after the time limit."""
    try:
        with anyio.fail_after(_TIMEOUT_SECONDS):
            yield
    except TimeoutError:
        raise ProviderUnreachable(f"it does not answer within {_TIMEOUT_SECONDS:g} s") from None
