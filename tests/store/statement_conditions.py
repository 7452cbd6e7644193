"""The conditions of an SQL statement as texts: the parts after WHERE, AND, IF, LIMIT.

    assert conditions_of("SELECT FROM t WHERE a = 1 LIMIT 3") == {"a = 1", "3"}

Comments and line breaks do not count.
"""

import hashlib
import re

_HOLDS = ("WHERE", "AND", "OR", "ON", "LIMIT", "IF", "WHEN")
_OTHER = (
    *("FOR UPDATE", "FOR KEY SHARE", "ORDER BY", "GROUP BY", "UNION ALL", "CROSS JOIN"),
    *("LEFT JOIN", "JOIN", "FROM", "SELECT", "THEN", "ELSE", "END", "RETURNING", "RETURN"),
    *("UPDATE", "SET", "LOOP", "CONTINUE", "PERFORM", "INTO", "AS", "FILTER", "GET", "INSERT"),
    *("WITH", "FOR", "CASE"),
)
_WORD = re.compile(rf"\b({'|'.join((*_HOLDS, *_OTHER))})\b|;|:=")
_COMMENT = re.compile(r"--[^\n]*")


def conditions_of(text: str) -> set[str]:
    """The conditions of a statement, without the parts that join tables or name columns."""
    text = _COMMENT.sub("", text)
    if "$$" in text:
        text = text.split("$$")[1]
    parts = _WORD.split(" ".join(text.split()))
    found = (
        body.strip(" (),")
        for word, body in zip(parts[1::2], parts[2::2], strict=True)
        if word in _HOLDS
    )
    locked = {"SKIP LOCKED"} if "SKIP LOCKED" in text else set()
    return {each for each in found if each} | locked


def fingerprint_of(text: str) -> str:
    """A hash of a statement, without its comments and line breaks."""
    said = " ".join(_COMMENT.sub("", text).split())
    return hashlib.sha256(said.encode()).hexdigest()[:12]


def functions_of(text: str) -> set[str]:
    """The functions of inboxd that a statement calls or makes."""
    return set(re.findall(r"\{schema\}\.(\w+)\(", _COMMENT.sub("", text)))
