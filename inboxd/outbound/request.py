"""The payload of `http.request`, checked when it runs: an invalid one is a dead letter at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """Sends a request to a target: a command, `ctx.send(HttpRequest(target="bank", path="/pay"))`.

    Give target (a name in the settings) and path (appended to its URL), or url; and at most one of
    json, body and body_base64. expect: statuses that mean success: "2xx", "404". timeout: such as
    "10s", for the whole answer. sign: False leaves out the target's signature. idempotency_key: the
    same at each attempt; the default is the command's own.
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
