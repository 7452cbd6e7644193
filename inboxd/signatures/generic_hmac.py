"""An HMAC in a header: GitHub's form, and forms that the settings describe.

Promises that digits cannot move between the time and the value next to it: otherwise a captured
signature would be valid for another request. Known limits: if the time is not signed, only the
dedup key recognizes a repeated request. An id before the body may contain the separator between
them; three digits at the beginning of a body that directly follows a time in seconds can be read as
its milliseconds.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from string import Formatter
from typing import Any

from inboxd.errors import Malformed, SettingsError
from inboxd.signatures.contract import Key, SignedRequest, Verifier
from inboxd.signatures.matching import MOST_SIGNATURES, HmacKeys, accepted, check_time, header, wire
from inboxd.signatures.material import as_base64, as_hex, as_text, checked, valid
from inboxd.signatures.options import choice, known, name_of_header, text


def _padded(given: bytes) -> bytes:
    bare = given.rstrip(b"=")
    return bare + b"=" * (-len(bare) % 4)


# The form for comparison as text: base64 is padded (RFC 4648, section 3.2).
_WRITTEN: dict[str, Callable[[bytes], bytes]] = {
    "hex": lambda digest: digest.hex().encode("ascii"),
    "base64": base64.b64encode,
    "base64url": base64.urlsafe_b64encode,
}
# Normalizes a received signature: hex in either case, base64 with or without padding.
_READ: dict[str, Callable[[bytes], bytes]] = {
    "hex": bytes.lower,
    "base64": _padded,
    "base64url": _padded,
}
_SECRETS: dict[str, Callable[[Key], bytes]] = {
    "text": as_text,
    "base64": as_base64,
    "hex": as_hex,
}
_OPTIONS = (
    *("algorithm", "header", "encoding", "prefix", "template"),
    *("timestamp_header", "id_header", "secret_encoding"),
)


class HmacVerifier(Verifier):
    def __init__(self, keys: Sequence[Key], tolerance: float, options: Mapping[str, Any]) -> None:
        known(options, _OPTIONS)
        self._keys = checked(keys)
        self._tolerance = tolerance
        self._header = name_of_header(options, "header")
        self._time = name_of_header(options, "timestamp_header", "")
        self._id = name_of_header(options, "id_header", "")
        self._prefix = text(options, "prefix", "").encode("latin-1", "replace")
        algorithm = choice(options, "algorithm", ("sha256", "sha512", "sha1"))
        encoding = choice(options, "encoding", tuple(_WRITTEN))
        secret = _SECRETS[choice(options, "secret_encoding", tuple(_SECRETS))]
        self._template = _Template(text(options, "template", "{body}"), self._time, self._id)
        self._read = _READ[encoding]
        self._made = HmacKeys(keys, secret, algorithm, _WRITTEN[encoding])
        named = frozenset(filter(None, (self._header, self._time, self._id)))
        self.signed_headers = named - self.secret_headers
        self.default_dedup_key = f"header:{self._id}" if self._id else None
        if algorithm == "sha1":
            self.doubts = (
                "algorithm is sha1, which is for old senders only: ask the sender for sha256",
            )

    def verify(self, request: SignedRequest, now: float) -> str:
        headers = request.headers
        signatures = self._signatures(wire(header(headers, self._header), self._header))
        time = id_ = b""
        if self._time:
            time = check_time(header(headers, self._time), self._time, now, self._tolerance)
        if self._id:
            id_ = wire(header(headers, self._id), self._id)
        if self._template.is_spliced(request.body, time, id_):
            raise Malformed("the boundary between its time and its id or body is ambiguous")
        signed = self._template.filled(request.body, time, id_)
        return accepted(now, self._made.found(signed, signatures, now))

    def _signatures(self, given: bytes) -> list[bytes]:
        prefix, read = self._prefix, self._read
        parts = [given]
        if b"," in given and b"," not in prefix:
            parts = [each.strip() for each in given.split(b",")]
        found = [read(each[len(prefix) :]) for each in parts if each.startswith(prefix)]
        if not found or len(found) > MOST_SIGNATURES:
            raise Malformed(
                f"its {self._header} has no signature in the form that the settings describe"
            )
        return found

    def seconds(self, size: int) -> float:
        return self._made.seconds(size)

    def sign(self, body: bytes, message_id: str, now: float) -> dict[str, str]:
        time = str(int(now))
        signed = self._template.filled(body, time.encode("ascii"), wire(message_id, "id"))
        (signature,) = self._made.signatures(signed, valid(self._keys, now)[:1])
        sent = {self._header: self._prefix.decode("latin-1") + signature}
        if self._time:
            sent[self._time] = time
        if self._id:
            sent[self._id] = message_id
        return sent


class GithubVerifier(HmacVerifier):
    """`X-Hub-Signature-256` signs only the body, not the delivery's id."""

    def __init__(self, keys: Sequence[Key], tolerance: float, options: Mapping[str, Any]) -> None:
        known(options, ())
        signed = {"header": "x-hub-signature-256", "prefix": "sha256="}
        super().__init__(keys, tolerance, signed)
        self.signed_headers |= {"x-github-delivery", "x-github-event"}
        self.default_dedup_key = "header:x-github-delivery"

    def sign(self, body: bytes, message_id: str, now: float) -> dict[str, str]:
        return {**super().sign(body, message_id, now), "x-github-delivery": message_id}


class _Template:
    def __init__(self, template: str, time: str, id_: str) -> None:
        self._names: list[str] = []
        self._pattern = b""
        # The literal texts between successive names.
        self._between: list[bytes] = []
        for literal, name, spec, conversion in _parsed(template):
            self._pattern += literal.encode().replace(b"%", b"%%")
            if name is None:
                continue
            if spec or conversion or name not in {"body", "timestamp", "id"}:
                raise SettingsError(
                    f"template: {{{name}}} is not known: use {{body}}, {{timestamp}} and "
                    "{id}; write {{ and }} for braces."
                )
            if self._names:
                self._between.append(literal.encode())
            self._pattern += b"%b"
            self._names.append(name)
        if "body" not in self._names:
            raise SettingsError("template: {body} is missing: the signature would not protect it.")
        for name, option, given in (
            ("timestamp", "timestamp_header", time),
            ("id", "id_header", id_),
        ):
            if name in self._names and not given:
                raise SettingsError(f"{option} is missing: the template has {{{name}}}.")
        if time and "timestamp" not in self._names:
            raise SettingsError(
                "timestamp_header: the template does not sign it, so anyone could change it: "
                "add {timestamp} where the sender has it."
            )
        self._is_body = self._pattern == b"%b"

    def is_spliced(self, body: bytes, time: bytes, id_: bytes) -> bool:
        """Whether digits may have moved between the time and the value next to it."""
        values = {"body": body, "timestamp": time, "id": id_}
        pairs = zip(self._names, self._between, self._names[1:], strict=False)
        return any(
            (after == "timestamp" and _ends_with_time(values[before], text, before))
            or (before == "timestamp" and not text and values[after][:1].isdigit())
            for before, text, after in pairs
        )

    def filled(self, body: bytes, time: bytes, id_: bytes) -> bytes:
        if self._is_body:
            return body
        values = {"body": body, "timestamp": time, "id": id_}
        return self._pattern % tuple(values[name] for name in self._names)


def _ends_with_time(value: bytes, text: bytes, name: str) -> bool:
    """A captured "a.1.2.rest" could be sent as the id "a.1" at the time 2, with a longer body."""
    if not text:
        return value[-1:].isdigit()
    return name == "id" and text in value and value.rpartition(text)[2].isdigit()


def _parsed(template: str) -> list[tuple[str, str | None, str | None, str | None]]:
    try:
        return list(Formatter().parse(template))
    except ValueError as error:
        raise SettingsError(f"template: {error}; write {{{{ and }}}} for braces.") from None
