"""Checks whether headers may be sent."""

import re
from collections.abc import Mapping

from inboxd.errors import TargetRefused

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_LONGEST_VALUE = 8000
# Headers that the connection sets, or that could make one request look like two.
_OURS = frozenset(
    {
        *("host", "content-length", "transfer-encoding", "connection", "keep-alive", "te"),
        *("trailer", "upgrade", "expect", "proxy-authorization", "proxy-connection"),
    }
)


def checked_headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    """The given headers. Raises TargetRefused, without values, if one is not allowed."""
    for name, value in headers.items():
        if not _NAME.fullmatch(name):
            raise TargetRefused(f"{name[:50]!r} is not a valid name of a header.")
        if name.lower() in _OURS:
            raise TargetRefused(f"The header {name!r} is set by the connection: leave it out.")
        if len(value) > _LONGEST_VALUE or not _VALUE.fullmatch(value):
            raise TargetRefused(
                f"The value of the header {name!r} is not valid: at most {_LONGEST_VALUE} "
                "characters of latin-1, without control characters."
            )
    return headers
