"""The value types of sources and relays: header names, references, destinations, address ranges.

Owns their syntax. A reference names the place of a value: `header:NAME`, `pointer:/a/b` (RFC 6901,
into the body), or `text:…`, the value itself. A destination is a text with placeholders,
`{type}.v{version}`. Known limit: whether a request, message or event has the value is known only
when it arrives. *See:* `inboxd/settings/inbound.py`, `inboxd/settings/brokers.py`.
"""

import ipaddress
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from typing import Annotated, Literal

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field
from pydantic import WithJsonSchema as Schema

from inboxd.settings.values import Names

# The token of RFC 9110.
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_LOG_IN = frozenset({"authorization", "proxy-authorization", "cookie", "set-cookie"})
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_POINTER = re.compile(r"(/([^~/]|~[01])*)*")
# Values of an event that a relay's destination may contain.
PLACEHOLDERS = ("type", "version", "tenant", "entity_type", "entity_id")
PLACEHOLDER = re.compile(rf"\{{({'|'.join(PLACEHOLDERS)})\}}")


def _source_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(
            "the name of a source is a part of its address: use at most 100 letters, digits, dots, "
            "hyphens and underscores, beginning with a letter or digit"
        )
    return name


def target_name(name: str) -> str:
    """Check the name of a target, which is a part of its queue's name; raises ValueError."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            "the name of a target is a part of its queue's name: use at most 100 letters, digits, "
            "dots, hyphens and underscores, beginning with a letter or digit"
        )
    return name


def name_of(what: str) -> Callable[[str], str]:
    """Return a check of the name of a broker or a relay, which raises ValueError."""

    def check(name: str) -> str:
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"the name of a {what} is a part of other names: use at most 100 letters, digits, "
                "dots, hyphens and underscores, beginning with a letter or digit"
            )
        return name

    return check


def _header(name: str) -> str:
    if not _TOKEN.fullmatch(name):
        raise ValueError("a header's name has letters, digits and hyphens, such as x-request-id")
    return name.lower()


def _kept_header(name: str) -> str:
    if (name := _header(name)) in _LOG_IN:
        raise ValueError(f"{name} is never kept, since it holds credentials; leave it out")
    return name


def _pointer(text: str) -> str:
    if not _POINTER.fullmatch(text):
        raise ValueError(
            "a JSON pointer begins with a slash, such as /data/id; write ~ as ~0, and a slash "
            'within a name as ~1; "" is the whole'
        )
    return text


def _reference(*kinds: str, words: tuple[str, ...] = ()) -> Callable[[str], str]:
    """Return a check of a reference: one of these kinds, or one of these words."""
    shown = [*(f'"{kind}:…"' for kind in kinds), *(f'"{word}"' for word in words)]

    def check(text: str) -> str:
        if text in words:
            return text
        kind, colon, rest = text.partition(":")
        if not colon or kind not in kinds:
            raise ValueError(f"must be {', '.join(shown[:-1])} or {shown[-1]}")
        match kind:
            case "header":
                return f"header:{_kept_header(rest)}"
            case "pointer":
                return f"pointer:{_pointer(rest)}"
        if not rest:
            raise ValueError("text: must be followed by a text")
        return text

    return check


def _destination(text: str) -> str:
    if re.search(r"[{}]", PLACEHOLDER.sub("", text)):
        shown = ", ".join(f"{{{each}}}" for each in PLACEHOLDERS)
        raise ValueError(f"only {shown} are allowed in braces")
    return text


def _networks(values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        try:
            ipaddress.ip_network(value)
        except ValueError as error:
            raise ValueError(
                f"{error}; write an address range such as 192.0.2.7, 192.0.2.0/24 or 2001:db8::/32"
            ) from None
    return values


def _whole_number(value: object) -> object:
    return int(value) if isinstance(value, str) and value.isdecimal() else value


def _midnight(value: object) -> object:
    """Turn a TOML date into its first moment in UTC."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime.combine(value, time(), UTC)
    return value


def _text(pattern: str) -> Schema:
    return Schema({"type": "string", "pattern": f"^{pattern}$"})


# No pattern in the schema: editors complete table names by `additionalProperties`.
SourceName = Annotated[str, AfterValidator(_source_name), Schema({"type": "string"})]
HeaderName = Annotated[str, AfterValidator(_header), _text(_TOKEN.pattern)]
HeaderNames = Annotated[
    Names, AfterValidator(lambda names: tuple(_kept_header(name) for name in names))
]
Pointer = Annotated[str, AfterValidator(_pointer), _text(_POINTER.pattern)]
Reference = Annotated[
    str,
    AfterValidator(_reference("header", "pointer", "text")),
    _text(f"(header:.+|pointer:{_POINTER.pattern}|text:.+)"),
]
TypeReference = Annotated[
    str,
    AfterValidator(_reference("header", "pointer")),
    _text(f"(header:.+|pointer:{_POINTER.pattern})"),
]
DedupKey = Annotated[
    str,
    AfterValidator(_reference("header", "pointer", words=("body", ""))),
    _text(f"(header:.+|pointer:{_POINTER.pattern}|body|)"),
]
DestinationTemplate = Annotated[
    str,
    Field(min_length=1, max_length=255),
    AfterValidator(_destination),
    _text(rf"([^{{}}]|{PLACEHOLDER.pattern})+"),
]
Addresses = Annotated[Names, AfterValidator(_networks)]
Answer = Annotated[Literal[200, 201, 202, 204], BeforeValidator(_whole_number)]
When = Annotated[
    AwareDatetime, BeforeValidator(_midnight), Schema({"type": "string", "format": "date-time"})
]
