"""What is kept of an answer: its code, some headers, the beginning of its body; never a secret."""

from collections.abc import Collection
from typing import Any

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
        known = {each for each in secrets if len(each) >= _SHORTEST_SECRET}
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
        return text
