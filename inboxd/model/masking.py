"""Passwords in text that others will read: a log line, a stored error, a command line's output.

In doubt it hides too much; a password that is cut off is hidden, too; its time is linear. Known
limit: a password is recognised by its place in a URL, after `password=` or as the quoted value of a
quoted `"password":`, not by its look.
"""

import re

MASK = "********"

_WORD = re.compile(r"\S+")
_BEFORE_PASSWORD = re.compile(r"://[^:/@]*:")
_SECRETS = "password|passwd|pwd|secret|token"
_AS_PARAMETER = re.compile(rf"((?:{_SECRETS})=)[^\s&;]+", re.IGNORECASE)
# In JSON, or a message that shows a dict: the name, its quotes, the value in quotes.
_AS_FIELD = re.compile(
    r"""((["'])([\w\-]++)\2\s{0,2}:\s{0,2})(?:"(?:[^"\\]|\\.)*+"?|'(?:[^'\\]|\\.)*+'?)""", re.DOTALL
)
_NAMES_A_SECRET = re.compile(_SECRETS, re.IGNORECASE)


def redact(text: str, at_most: int | None = None) -> str:
    is_cut = at_most is not None and len(text) > at_most
    if is_cut:
        # the text after the cut would distinguish a password from a port
        text = f"{text[:at_most]}@"
    if "=" in text:
        text = _AS_PARAMETER.sub(rf"\1{MASK}", text)
    if ":" in text and _NAMES_A_SECRET.search(text):
        text = _AS_FIELD.sub(_without_value, text)
    if "@" in text and "://" in text:
        text = _WORD.sub(_without_password, text)
    return text.removesuffix("@") if is_cut else text


def _without_value(field: re.Match[str]) -> str:
    return f"{field[1]}{MASK}" if _NAMES_A_SECRET.search(field[3]) else field[0]


def _without_password(word: re.Match[str]) -> str:
    """Mask the password of a URL, which ends at the word's last @."""
    before, at, behind = word[0].rpartition("@")
    found = _BEFORE_PASSWORD.search(before) if at else None
    return word[0] if found is None else f"{before[: found.end()]}{MASK}@{behind}"
