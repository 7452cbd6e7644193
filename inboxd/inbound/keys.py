"""Compiles settings that take a text from a request or message: keys, types, entities.

A missing value is a BrokenBody that names the setting and no value; a number keeps its digits.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from inboxd.errors import UsageError
from inboxd.inbound.bodies import BrokenBody, exact_text
from inboxd.inbound.pointer import MISSING, compile_pointer
from inboxd.model import checks

Headers: TypeAlias = Mapping[str, str]


class Carrier(Protocol):
    @property
    def headers(self) -> Headers:
        """By name in lower case."""

    @property
    def body(self) -> bytes: ...

    @property
    def sha256(self) -> str:
        """The hash of the body, also of a body that was not kept."""


class AuthenticRequest(NamedTuple):
    """An authentic request. at: nanoseconds since the epoch."""

    headers: Headers
    body: bytes
    address: str | None
    key_id: str | None
    traceparent: str | None
    at: int

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.body).hexdigest()


# Gets the carrier, its decoded document, and the document's text.
Read: TypeAlias = Callable[[Carrier, object, str], str]
# Makes a found text fit for its column.
Fit: TypeAlias = Callable[[str], str]

_KEY_BYTES = 255
# A text of fewer characters fits in any encoding.
_ALWAYS_FITS = _KEY_BYTES // 4
_TRACE = r"(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
# Later versions may have more fields after the flags; version ff is invalid.
_TRACEPARENT = re.compile(rf"00-{_TRACE}|(?!00|ff)[0-9a-f]{{2}}-{_TRACE}(?:-[!-~]*)?")


def compile_read(setting: str, value: str, fit: Fit, prefix: str = "") -> Read:
    """fit: shortens or refuses a long text. Raises UsageError; the function raises BrokenBody."""
    kind, colon, rest = value.partition(":")
    if value == "body":
        return _hash
    if not colon or kind not in _KINDS:
        raise UsageError(
            f'{setting} is "{value}"; it may be "header:NAME", "pointer:/PATH" (a JSON pointer) or '
            '"text:FIXED"'
        )
    return _KINDS[kind](setting, rest, fit, prefix)


def dedup_key(text: str) -> str:
    """Hash a long key as `declared_key` does in the database."""
    if len(text.encode()) > _KEY_BYTES:
        return hashlib.sha256(text.encode()).hexdigest()
    return text


def ordering_key(text: str) -> str:
    """Hash a long key as `accept_event` does in the database."""
    if len(text.encode()) > _KEY_BYTES:
        return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    return text


def short(text: str) -> str:
    """Returns the text. Raises BrokenBody if it is too long."""
    if problem := checks.short(text):
        raise BrokenBody(problem)
    return text


def traceparent(headers: Headers) -> str | None:
    text = headers.get("traceparent")
    if text is None or len(text) > _KEY_BYTES or not _TRACEPARENT.fullmatch(text):
        return None
    return text


def _header(setting: str, name: str, fit: Fit, prefix: str) -> Read:
    wanted = name.strip().lower()
    if not wanted:
        raise UsageError(f'{setting} names no header: write "header:NAME"')

    def read(came: Carrier, _document: object, _text: str) -> str:
        found = came.headers.get(wanted)
        if not found:
            raise BrokenBody(f"there is no header {wanted} ({setting})")
        if problem := checks.text(found):
            raise BrokenBody(f"the header {wanted} ({setting}) {problem}")
        return _fitted(fit, prefix + found, setting)

    return read


def _pointer(setting: str, pointer: str, fit: Fit, prefix: str) -> Read:
    follow = compile_pointer(pointer)

    def read(_came: Carrier, document: object, text: str) -> str:
        found = follow(document)
        if type(found) is float:
            # A float may have lost digits, and two keys must not become one: read the text instead.
            found = follow(exact_text(text))
        if type(found) is not str:
            found = _text_of(found, setting, pointer)
        if not found:
            raise BrokenBody(f"{pointer} is empty ({setting})")
        if prefix:
            found = prefix + found
        return found if len(found) < _ALWAYS_FITS else _fitted(fit, found, setting)

    return read


def _text(setting: str, text: str, fit: Fit, _prefix: str) -> Read:
    if problem := checks.name(text):
        raise UsageError(f"{setting} {problem}")
    fixed = fit(text)

    def read(_came: Carrier, _document: object, _text: str) -> str:
        return fixed

    return read


_KINDS = {"header": _header, "pointer": _pointer, "text": _text}


def _text_of(found: object, setting: str, pointer: str) -> str:
    if type(found) is int:
        return str(found)
    if type(found) is bool:
        return "true" if found else "false"
    if found is MISSING or found is None:
        raise BrokenBody(f"the body has nothing at {pointer} ({setting})")
    raise BrokenBody(f"{pointer} is an object or an array ({setting}), which cannot be a key")


def _fitted(fit: Fit, text: str, setting: str) -> str:
    try:
        return fit(text)
    except BrokenBody as problem:
        raise BrokenBody(f"{setting} {problem}") from None


def _hash(came: Carrier, _document: object, _text: str) -> str:
    return came.sha256
