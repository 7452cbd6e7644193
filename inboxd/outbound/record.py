"""Keeps a part of an answer: status, some headers, the body's beginning. *See:* `client`."""

import base64
import html
import json
import string
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import quote, quote_plus

from inboxd.outbound.client import TargetAnswer

_HEADERS = ("content-type", "content-length", "location", "retry-after", "date", "x-request-id")
_REDACTED = "[redacted]"
# A shorter text is too common: redacting it would remove parts of words.
_SHORTEST_SECRET = 4
_LONGEST_HEADER = 500
_SMALL = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


class Recorder:
    def __init__(self, secrets: Collection[str], most: int = 4096) -> None:
        """secrets: sent values to redact if the target repeats them. most: characters of a body."""
        forms = (form for each in secrets for form in _forms(each))
        known = {_folded(each) for each in forms if len(each) >= _SHORTEST_SECRET}
        self._secrets = sorted(known, key=len, reverse=True)
        self._most = most

    def record(self, answer: TargetAnswer) -> dict[str, Any]:
        text = self.text(answer.body)
        headers = {
            name: self.redacted(answer.headers[name])[:_LONGEST_HEADER]
            for name in _HEADERS
            if name in answer.headers
        }
        return {
            "status": answer.status,
            "headers": headers,
            "body": text[: self._most],
            "cut": answer.cut or len(text) > self._most,
            "seconds": round(answer.seconds, 3),
        }

    def text(self, body: bytes) -> str:
        """A body as text without secrets, and without NUL, which PostgreSQL cannot store."""
        return self.redacted(
            body.decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
        )

    def redacted(self, text: str) -> str:
        folded = _folded(text)
        for secret in self._secrets:
            if secret in folded:
                text = _without(text, folded, secret)
                folded = _folded(text)
        return self._without_begun(text, folded)

    def _without_begun(self, text: str, folded: str) -> str:
        """The text without a secret's beginning at its end, where the text may have been cut."""
        for secret in self._secrets:
            for length in range(min(len(secret), len(text)), _SHORTEST_SECRET - 1, -1):
                if folded.endswith(secret[:length]):
                    return text[:-length] + _REDACTED
        return text


def _folded(text: str) -> str:
    """The text in lower case, with its length unchanged: some letters' lower case is longer."""
    return text.lower() if text.isascii() else text.translate(_SMALL)


def _without(text: str, folded: str, secret: str) -> str:
    kept, behind = list[str](), 0
    while (found := folded.find(secret, behind)) >= 0:
        kept.append(text[behind:found])
        behind = found + len(secret)
    return _REDACTED.join([*kept, text[behind:]])


def _forms(secret: str) -> set[str]:
    """Plain, without its scheme, in JSON, in a URL, in HTML, in hexadecimal, and inside base64."""
    scheme, _, rest = secret.partition(" ")
    plain = {secret, rest}
    if scheme.lower() == "basic":
        with suppress(ValueError):
            pair = base64.b64decode(rest, validate=True).decode()
            plain |= {pair, pair.partition(":")[2]}
    in_json = {json.dumps(each)[1:-1] for each in plain}
    in_urls = {written(each) for each in plain for written in (quote, quote_plus)}
    in_html = {html.escape(each) for each in plain}
    in_html |= {each.replace("&#x27;", "&#39;") for each in in_html}
    raw = [each.encode() for each in plain if each]
    in_bytes = {each.hex() for each in raw} | {form for each in raw for form in _in_base64(each)}
    slashed = {each.replace("/", "\\/") for each in in_json | in_bytes}
    return plain | in_json | slashed | in_urls | in_html | in_bytes


def _in_base64(raw: bytes) -> Iterator[str]:
    """The part of any base64 text that comes from `raw`, for each possible offset in bytes."""
    for before in range(3):
        bits = 8 * (before + len(raw))
        text = base64.b64encode(bytes(before) + raw)[-(-8 * before // 6) : bits // 6].decode()
        yield from (text, text.replace("+", "-").replace("/", "_"))
