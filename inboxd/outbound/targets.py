"""Turns a payload, and its target in the settings, into a request.

Promises: an invalid request is a Reject that names the field; a payload makes the same request at
each attempt, except for the time of its signature. *See:* `client`, which sends it.
"""

import base64
import binascii
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from urllib.parse import unquote, urlsplit

from inboxd.errors import Reject, UsageError
from inboxd.model import duration
from inboxd.outbound.addresses import Allowed
from inboxd.outbound.client import TargetRequest
from inboxd.outbound.record import Recorder
from inboxd.outbound.request import HttpRequest
from inboxd.outbound.verdict import Expected
from inboxd.settings import Settings, Target
from inboxd.signatures import Key, Verifier, verifier

LONGEST = 600.0
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """breaker: also the queue of a declared target. host: of its URL."""

    breaker: str
    host: str
    request: TargetRequest
    expected: Expected
    recorder: Recorder


class Targets:
    def __init__(self, settings: Settings) -> None:
        """Raises SettingsError for keys that cannot sign."""
        self._http = settings.outbound.http
        self._targets = settings.targets
        self._names = {name.lower() for name in settings.targets}
        self._signers = {n: _signer(each) for n, each in settings.targets.items()}

    def prepare(
        self, payload: HttpRequest, headers: Mapping[str, str], key: str
    ) -> PreparedRequest:
        """The request. headers: added by inboxd; key: the id to sign. Raises Reject."""
        target = self._target(payload)
        url = _url(payload, target)
        body, kind = _body(payload)
        if payload.method not in _METHODS:
            raise Reject(
                f"method: {payload.method!r:.20} is not one of {', '.join(sorted(_METHODS))}"
            )
        sent = {"user-agent": f"inboxd/{version('inboxd')}"}
        if kind:
            sent["content-type"] = kind
        secrets = _secrets(target)
        given = {name.lower(): value for name, value in payload.headers.items()}
        if taken := sorted(given.keys() & secrets.keys()):
            raise Reject(f"headers: {taken[0]} is set by the target's settings; leave it out")
        sent |= {**secrets, **given, **headers}
        signer = self._signers.get(payload.target or "")
        if signer is not None and payload.sign:
            sent |= signer.sign(body, key, time.time())
        request = TargetRequest(
            payload.method,
            url,
            sent,
            body,
            self._timeout(payload, target),
            self._http.max_answer,
            Allowed(target.allow if target is not None else self._http.allow),
        )
        try:
            expected = Expected.of(payload.expect)
        except ValueError as error:
            raise Reject(f"expect: {error}") from None
        hidden = [*secrets.values(), *(each.partition(" ")[2] for each in secrets.values())]
        own = [v for n, v in sent.items() if n in ("authorization", "cookie")]
        recorder = Recorder([*hidden, *own], self._http.keep_answer)
        host = _host(url)
        return PreparedRequest(self._breaker(payload, host), host, request, expected, recorder)

    def _target(self, payload: HttpRequest) -> Target | None:
        if (payload.target is None) == (payload.url is None):
            raise Reject("give either target or url")
        if payload.target is None:
            if not self._http.enabled:
                raise Reject(
                    "url: these settings allow requests to targets only; see outbound.http.enabled"
                )
            return None
        target = self._targets.get(payload.target)
        if target is None:
            raise Reject(f"target: these settings have no [targets.{payload.target[:50]}]")
        return target

    def _breaker(self, payload: HttpRequest, host: str) -> str:
        """The target's breaker, or the host's; a plain URL never uses a target's breaker."""
        if payload.target is not None:
            return f"http.{payload.target}"
        return f"http.url.{host}" if host in self._names else f"http.{host}"

    def _timeout(self, payload: HttpRequest, target: Target | None) -> float:
        if payload.timeout is not None:
            try:
                given = duration.seconds(payload.timeout)
            except UsageError as error:
                raise Reject(f"timeout: {error}") from None
            if not given:  # the client would treat 0 as no timeout
                raise Reject("timeout: it must be longer than zero")
            return min(given, LONGEST)
        own = None if target is None else target.timeout
        return min((own or self._http.timeout).total_seconds(), LONGEST)


def _signer(target: Target) -> Verifier | None:
    if target.signature == "none":
        return None
    keys = [
        Key(
            key.id,
            b"" if key.secret is None else key.secret.get_secret_value().encode(),
            None if key.not_before is None else key.not_before.timestamp(),
            None if key.not_after is None else key.not_after.timestamp(),
        )
        for key in target.keys
    ]
    options = {} if target.hmac is None else target.hmac.model_dump()
    return verifier(target.signature, keys, tolerance=300.0, options=options)


def _secrets(target: Target | None) -> dict[str, str]:
    if target is None:
        return {}
    found = {name.lower(): value.get_secret_value() for name, value in target.headers.items()}
    if target.authorization is not None:
        found["authorization"] = target.authorization.get_secret_value()
    return found


def _host(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "unknown")[:190]
    except ValueError:
        return "unknown"


def _url(payload: HttpRequest, target: Target | None) -> str:
    if target is None:
        return payload.url or ""
    path = payload.path
    if path and not path.startswith(("/", "?")):
        raise Reject("path: it must begin with a slash, or with ? for a query")
    if _has_steps_up(path):
        raise Reject(
            "path: it has . or .. between slashes, which could lead out of the target's URL"
        )
    return (target.url.rstrip("/") if path.startswith("/") else target.url) + path


def _has_steps_up(path: str) -> bool:
    """A server or a proxy may decode the path once more, and read a part as a step up."""
    parts = re.split(r"[/\\]", unquote(unquote(re.split("[?#]", path)[0])))
    return any(part.partition(";")[0] in (".", "..") for part in parts)


def _body(payload: HttpRequest) -> tuple[bytes, str]:
    given = [n for n in ("json", "body", "body_base64") if getattr(payload, n) is not None]
    if len(given) > 1:
        raise Reject(f"{' and '.join(given)}: give one of them")
    if payload.json is not None:
        written = json.dumps(payload.json, ensure_ascii=False, separators=(",", ":"))
        return written.encode(), "application/json"
    if payload.body is not None:
        return payload.body.encode(), "text/plain; charset=utf-8"
    if payload.body_base64 is None:
        return b"", ""
    try:
        return base64.b64decode(payload.body_base64, validate=True), "application/octet-stream"
    except binascii.Error:
        raise Reject("body_base64: it is not base64") from None
