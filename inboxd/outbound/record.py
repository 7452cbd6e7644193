"""What is kept of an answer: its code, some headers, the beginning of its body; never a secret.

*See:* `client`, before it; `requests` and `endpoints/delivery.py`, which keep it.
"""

import base64
import json
from collections.abc import Collection
from contextlib import suppress
from typing import Any
from urllib.parse import quote, quote_plus

from inboxd.outbound.client import TargetAnswer

_HEADERS = ("content-type", "content-length", "location", "retry-after", "date", "x-request-id")
_REDACTED = "[redacted]"
# A shorter text may be anything: to redact it would only hide that it is there by chance.
_SHORTEST_SECRET = 4
_LONGEST_HEADER = 500


class Recorder:
    """Keeps answers of one target."""

    def __init__(self, secrets: Collection[str], most: int = 4096) -> None:
        """secrets: what was sent and must not be shown when it comes back. most: characters."""
        forms = (form for each in secrets for form in _forms(each))
        known = {each for each in forms if len(each) >= _SHORTEST_SECRET}
        self._secrets = sorted(known, key=len, reverse=True)
        self._most = most

    def record(self, answer: TargetAnswer) -> dict[str, Any]:
        """The answer as the result of a command, or as a part of its error."""
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
        """A body as text without secrets, and without what PostgreSQL cannot store."""
        return self.redacted(
            body.decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
        )

    def redacted(self, text: str) -> str:
        """The text without secrets."""
        for secret in self._secrets:
            text = text.replace(secret, _REDACTED)
        return self._without_begun(text)

    def _without_begun(self, text: str) -> str:
        """The text without the beginning of a secret at its end, where it may have been cut."""
        for secret in self._secrets:
            for length in range(min(len(secret), len(text)), _SHORTEST_SECRET - 1, -1):
                if text.endswith(secret[:length]):
                    return text[:-length] + _REDACTED
        return text


def _forms(secret: str) -> set[str]:
    """How targets write a secret that they repeat: as it is, alone, in JSON, in a URL."""
    scheme, _, rest = secret.partition(" ")
    plain = {secret, rest}
    if scheme.lower() == "basic":
        with suppress(ValueError):
            pair = base64.b64decode(rest, validate=True).decode()
            plain |= {pair, pair.partition(":")[2]}
    in_json = {json.dumps(each)[1:-1] for each in plain}
    in_urls = {written(each) for each in plain for written in (quote, quote_plus)}
    return plain | in_json | {each.replace("/", "\\/") for each in in_json} | in_urls
