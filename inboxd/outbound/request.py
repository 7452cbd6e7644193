"""The payload of the command `http.request`.

Promises that a key it does not know is refused: a misspelt one would ask for something else.
Known limit: it is checked when it runs; what can never be asked is then a dead letter at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """Ask a target over HTTP, as a command: `ctx.send(HttpRequest(target="bank", path="/pay"))`.

    target: one of the settings, and path what stands behind its URL; or url. At most one of json,
    body and body_base64. expect: which answers mean that it was done: "2xx", "404". timeout: such
    as "10s", for the whole answer. sign: False leaves out the target's signature. idempotency_key:
    the same at each attempt; unset: the command's own.
    """

    inboxd_command: ClassVar[str] = "http.request"
    __pydantic_config__: ClassVar[Mapping[str, str]] = {"extra": "forbid"}

    target: str | None = None
    path: str = ""
    url: str | None = None
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    json: Any = None
    body: str | None = None
    body_base64: str | None = None
    expect: Sequence[str | int] = ("2xx",)
    timeout: str | None = None
    sign: bool = True
    idempotency_key: str | None = None
