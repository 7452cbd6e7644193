"""An endpoint as workers know it, and the rules for its name, URL, types and secrets.

No representation or answer holds a secret. A snapshot: a write names the version it changes.
"""

import base64
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from inboxd.model import duration
from inboxd.model.addresses import plain_ipv4

# The type of delivery commands, and the prefix of their queues.
DELIVER = "webhook.deliver"
QUEUE = "webhooks."
# The type and the queue of the commands that make an emitted event's deliveries.
EMITTED, EMITTED_QUEUE = "webhook.emitted", "webhooks"
# Default for deliveries of one endpoint at once in one worker: a slow endpoint must not take the
# capacity of other endpoints.
AT_ONCE = 10


def is_of_deliveries(queue: str) -> bool:
    return queue.startswith(QUEUE)


_LONGEST_URL = 2048
_LONGEST_TYPE = 255

# Why an endpoint is disabled: by an operator; after failures for too long; after the answer 410
# (Gone); because no worker's settings have it any more.
DisabledBy: TypeAlias = Literal["operator", "failures", "gone", "settings"]


@dataclass(frozen=True, slots=True)
class WrittenEndpoint:
    """secrets: newest first. rate: such as "10/s".

    failing: seconds for which it has been failing; disable_after: seconds of failing after which it
    is disabled. succeeded: seconds since the last success that was written.
    """

    name: str
    url: str
    secrets: tuple[str, ...] = field(repr=False)
    ordered: bool
    rate: str | None
    concurrency: int | None
    enabled: bool
    failing: float | None
    succeeded: float | None
    disable_after: float
    version: int


SECRET = "whsec_"  # noqa: S105 - the prefix of secrets
LEAST_SECRET, MOST_SECRET = 24, 64  # bytes, by Standard Webhooks
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
# A message is signed as ID.TIME.BODY, so a dot in the id would be ambiguous.
_MESSAGE_ID = re.compile(r"[!-\-/-~]{1,255}")
_TYPE = re.compile(r"\*|[^\s*]+|[^\s*]+\.\*")


def name_problem(name: str) -> str | None:
    if _NAME.fullmatch(name):
        return None
    return (
        "must have at most 100 letters, digits, dots, hyphens and underscores, beginning with a "
        "letter or digit"
    )


def url_problem(url: str) -> str | None:
    """The problem of an endpoint's URL, if it has one; the text holds no part of the URL."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "cannot be read: write it as https://host/path"
    if parts.scheme not in ("https", "http") or not host or re.search(r"\s", url):
        return "must begin with https:// (or http://) and a host, and have no spaces"
    if parts.username is not None or parts.password is not None:
        return "must hold no user and no password: deliveries are signed"
    if parts.fragment:
        return "must have no fragment (#…): it is never sent"
    if plain_ipv4(host):
        return "must have an IPv4 address in four numbers with dots between, as 192.0.2.7"
    return None if len(url.encode()) <= _LONGEST_URL else f"must have at most {_LONGEST_URL} bytes"


def message_id_problem(message_id: str) -> str | None:
    """The problem of a message id, if it has one; `send_webhook` refuses the same ids."""
    if _MESSAGE_ID.fullmatch(message_id):
        return None
    return "must have 1 to 255 printable ASCII characters, without spaces and dots"


def type_problem(type_: str) -> str | None:
    if _TYPE.fullmatch(type_) and len(type_.encode()) <= _LONGEST_TYPE:
        return None
    return 'must be a type such as "user.created", "user.*" for a whole prefix, or "*" for all'


def secret_problem(secret: str) -> str | None:
    try:
        raw = base64.b64decode(secret.removeprefix(SECRET), validate=True)
    except ValueError:
        raw = b""
    if secret.startswith(SECRET) and LEAST_SECRET <= len(raw) <= MOST_SECRET:
        return None
    return f"must be {SECRET} and {LEAST_SECRET} to {MOST_SECRET} bytes in base64"


def made_secret() -> str:
    return SECRET + base64.b64encode(secrets.token_bytes(32)).decode()


def endpoint_state(row: Mapping[str, Any]) -> str:
    if not row["enabled"]:
        return "disabled"
    return "ok" if row["failing_since"] is None else "failing"


def endpoint_document(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "disable_after": duration.write(row["disable_after"])}
