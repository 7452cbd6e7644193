"""An OpenID provider for the tests: strict with its client, and faulty where a test wants it.

    async with providing() as provider:
        provider.claims["groups"] = ["staff"]

Promises: a code gives tokens once, to a client with the right secret, redirect address and PKCE
verifier.
"""

import hashlib
import hmac
import json
import secrets
import socket
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, unquote_plus, urlencode

import anyio
import uvicorn
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

CLIENT = "inbox & co"
SECRET = "canary+client/secret: of 30 %s"
ACCESS_TOKEN = "canary-access-token-of-the-provider"
# A key takes a while to generate, so all tests share two.
KEYS = [RSAKey.generate_key(2048, {"kid": f"key-{number}", "use": "sig"}) for number in (1, 2)]


class Provider:
    """The next answers, and the paths that were requested."""

    def __init__(self, port: int) -> None:
        """Answer correctly, for the user ada."""
        self.issuer = f"http://127.0.0.1:{port}/realms/staff"
        self.key: RSAKey | ECKey = KEYS[0]
        self.published: list[Mapping[str, Any]] = [KEYS[0].as_dict(private=False)]
        self.claims: dict[str, Any] = {"preferred_username": "ada", "groups": ["staff", "ops"]}
        self.userinfo: dict[str, Any] = {}
        self.metadata: dict[str, Any] = {}
        self.header: dict[str, Any] = {}
        self.algorithm = "RS256"
        self.secret: str | None = SECRET
        self.delays: dict[str, float] = {}
        self.answers: dict[str, Response] = {}
        self.asked: list[str] = []
        self.codes: dict[str, dict[str, str]] = {}
        self.given: list[str] = []
        """Codes, tokens and nonces, which must stay secret."""

    def application(self) -> Starlette:
        paths = {
            "/.well-known/openid-configuration": self._tell_metadata,
            "/keys": self._tell_keys,
            "/authorize": self._authorize,
            "/token": self._token,
            "/userinfo": self._tell_userinfo,
        }
        return Starlette(
            routes=[
                Route(f"/realms/staff{path}", self._asked(path, page), methods=["GET", "POST"])
                for path, page in paths.items()
            ]
        )

    def _asked(self, path: str, page: Any) -> Any:
        async def answer(request: Request) -> Response:
            self.asked.append(path)
            await anyio.sleep(self.delays.get(path, 0))
            return self.answers.get(path) or await page(request)

        return answer

    async def _tell_metadata(self, _: Request) -> Response:
        told = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize?tenant=1",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            **self.metadata,
        }
        return JSONResponse({name: value for name, value in told.items() if value is not None})

    async def _tell_keys(self, _: Request) -> Response:
        return JSONResponse({"keys": self.published})

    async def _authorize(self, request: Request) -> Response:
        """Approve each request: the user has signed in and agrees."""
        asked = dict(request.query_params)
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        assert asked["client_id"] == CLIENT
        code = f"canary-code-{secrets.token_urlsafe(12)}"
        self.codes[code] = asked
        self.given.append(code)
        back = urlencode({"code": code, "state": asked["state"]})
        return RedirectResponse(f"{asked['redirect_uri']}?{back}", 303)

    async def _token(self, request: Request) -> Response:
        form = {name: each[0] for name, each in parse_qs((await request.body()).decode()).items()}
        if self._client(request, form) != (CLIENT, self.secret):
            return JSONResponse({"error": "invalid_client"}, 401)
        asked = self.codes.pop(form.get("code", ""), None)
        if asked is None or form["redirect_uri"] != asked["redirect_uri"]:
            return JSONResponse({"error": "invalid_grant"}, 400)
        if _challenge(form["code_verifier"]) != asked["code_challenge"]:
            return JSONResponse({"error": "invalid_grant"}, 400)
        token = self.id_token(asked["nonce"])
        self.given += [token, form["code_verifier"], asked["nonce"]]
        return JSONResponse({"access_token": ACCESS_TOKEN, "id_token": token})

    async def _tell_userinfo(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {ACCESS_TOKEN}":
            return JSONResponse({}, 401)
        return JSONResponse(self.userinfo)

    def _client(self, request: Request, form: Mapping[str, str]) -> tuple[str, str | None]:
        kind, _, login = request.headers.get("authorization", "").partition(" ")
        if kind == "Basic":
            name, _, secret = b64decode(login).decode().partition(":")
            return unquote_plus(name), unquote_plus(secret)
        return form.get("client_id", ""), form.get("client_secret")

    def id_token(self, nonce: str) -> str:
        """The signed claims about the user."""
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT,
            "sub": "7",
            "iat": now,
            "exp": now + 300,
            "nonce": nonce,
            **self.claims,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        header = {"alg": self.algorithm, "kid": self.key.kid, **self.header}
        if self.algorithm == "none":
            return f"{_part(header)}.{_part(claims)}."
        if self.algorithm.startswith("HS"):  # with the public key, or the client's secret
            public = self.key.as_pem(private=False)
            key = SECRET.encode() if self.algorithm == "HS256" else public
            header["alg"] = "HS256"
            text = f"{_part(header)}.{_part(claims)}"
            return f"{text}.{_base64(hmac.digest(key, text.encode(), 'sha256'))}"
        if "crit" in header:  # the library refuses to sign this header
            assert isinstance(self.key, RSAKey)
            assert self.key.private_key is not None
            text = f"{_part(header)}.{_part(claims)}"
            signature = self.key.private_key.sign(text.encode(), PKCS1v15(), SHA256())
            return f"{text}.{_base64(signature)}"
        return jwt.encode(header, claims, self.key, [self.algorithm])


def _challenge(verifier: str) -> str:
    return _base64(hashlib.sha256(verifier.encode()).digest())


def _part(value: object) -> str:
    return _base64(json.dumps(value).encode())


def _base64(value: bytes) -> str:
    return urlsafe_b64encode(value).rstrip(b"=").decode()


@asynccontextmanager
async def providing() -> AsyncIterator[Provider]:
    """A provider on a port of its own, in this event loop."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        provider = Provider(listening.getsockname()[1])
        config = uvicorn.Config(
            provider.application(), http="h11", log_config=None, timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_serve, server, listening)
            try:
                yield provider
            finally:
                server.should_exit = True


async def _serve(server: uvicorn.Server, listening: socket.socket) -> None:
    """Run without signal handlers, which are the test runner's; end even if the test fails."""
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    with anyio.CancelScope(shield=True):
        await server.startup(sockets=[listening])
        await server.main_loop()
        await server.shutdown(sockets=[listening])
