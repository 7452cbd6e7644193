"""Hides secrets from people: the values of secret fields, and all contents of some types.

The name of a key, the type of a row, and handlers (`secret_keys`) tell what is a secret. Promises:
no value of a secret key is shown, at any depth, also within a text of JSON, of a form, of headers
or of a message; in doubt, too much is hidden; data that cannot be searched is hidden. Known limits:
a secret with a harmless name is shown; in a plain text, a secret is taken to end with its line, or
with its word after `=`. Lists show error texts as stored: `model/masking.py` has masked them
before.
"""

import json
import re
from collections.abc import Collection, Iterable, MutableMapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Final

from inboxd.model.masking import MASK, redact
from inboxd.settings import Admin
from inboxd.store import listing
from inboxd.store.session import Session

# The declared key that means the whole payload (`api/secret_keys.py`).
WHOLE: Final = ""
# A row's contents; and notes about the work, in which only keys are hidden, whatever the type.
_CONTENTS: Final = ("payload", "headers", "result")
_NOTES: Final = ("progress", "errors", "answer")
_OF_RECEIPTS: Final = ("headers", "body", "body_base64")
# Fields of an object that name its `value`: {"name": "Authorization", "value": …}.
_NAMING: Final = ("name", "key", "field", "header")
_NOT_IN_NAMES: Final = re.compile(r"[\W_]+")
# A key and its separator; both may be quoted, also as JSON within JSON.
_KEY: Final = re.compile(r"""(?<![\w.\-])([\w.\-]++)(\\*+["']?\]?\s{0,4}[:=]>?\s{0,4})""")
_QUOTED: Final = r"""\\*+"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|\\*+'(?:[^'\\]|\\.)*+(?:'|\\?\Z)"""
_AFTER_COLON: Final = re.compile(rf"(?:{_QUOTED}|[^\r\n,}}\])]++)", re.DOTALL)
_AFTER_EQUALS: Final = re.compile(
    rf"(?:{_QUOTED}|(?:(?:bearer|basic|digest|token)\s+)?[^\s,;&}}\])]++)",
    re.DOTALL | re.IGNORECASE,
)


async def redaction_of(
    session: Session, settings: Admin, kind: str, types: Collection[str] | None = None
) -> "Redaction":
    return Redaction(settings, await listing.secret_keys(session, kind, types))


class Redaction:
    def __init__(self, settings: Admin, declared: Iterable[str] = ()) -> None:
        """declared: keys that handlers declare as secrets."""
        self._settings = settings
        self._words = tuple(_plain(each) for each in settings.redact_keys)
        self._types = settings.hidden_types
        self._declared = frozenset(declared)
        self._names = frozenset(filter(None, map(_plain, self._declared)))
        self._is_secret = lru_cache(maxsize=2_000)(self._has_a_word)

    def hide(self, row: MutableMapping[str, Any]) -> bool:
        """Mask in place; return whether there were any secrets."""
        declared = row.get("secret_keys") or ()
        if not self._declared.issuperset(declared):
            return Redaction(self._settings, self._declared.union(declared)).hide(row)
        by_type = self.hides_type(row.get("type")) or WHOLE in self._declared
        found = [self._field(row, name, whole=by_type) for name in _CONTENTS]
        found += [self._field(row, name) for name in _NOTES]
        if isinstance(receipt := row.get("receipt"), dict):
            # A binary body cannot be searched for keys.
            binary = bool(self._words or self._declared)
            found += [
                self._field(receipt, name, whole=by_type or (binary and name == "body_base64"))
                for name in _OF_RECEIPTS
            ]
        return any(found)

    def hides_type(self, type_: object) -> bool:
        return any(fnmatchcase(str(type_), pattern) for pattern in self._types)

    def hides_some(self, texts: Iterable[str]) -> bool:
        return any(WHOLE in self._declared or self._text(each) != each for each in texts)

    def _field(self, of: MutableMapping[str, Any], name: str, *, whole: bool = False) -> bool:
        if of.get(name) is None:
            return False
        hidden = True
        if whole:
            of[name] = MASK
        elif isinstance(value := of[name], str):
            of[name] = self._text(value)
            hidden = of[name] != value
        else:
            hidden = self._within(value)
        return hidden

    def _within(self, value: Any) -> bool:
        hidden, left = False, [value]
        while left:  # no recursion: the value may be nested deeper than Python's limit
            each = left.pop()
            places: Iterable[tuple[Any, Any]] = ()
            named: tuple[Any, ...] = ()
            if isinstance(each, dict):
                places, named = list(each.items()), self._names_a_secret(each)
            elif isinstance(each, list):
                places, named = list(enumerate(each)), self._is_a_secret_pair(each)
            for place, inner in places:
                key = isinstance(place, str) and self._is_secret(place)
                if (key or place in named) and _tells(inner):
                    each[place] = MASK
                elif isinstance(inner, str):
                    each[place] = self._text(inner)
                else:
                    left.append(inner)
                    continue
                hidden = hidden or each[place] != inner
        return hidden

    def _names_a_secret(self, fields: dict[str, Any]) -> tuple[str, ...]:
        """The fields with the secret, as in {"name": "Authorization", "value": …}."""
        names = [fields[name] for name in _NAMING if isinstance(fields.get(name), str)]
        is_one = "value" in fields and any(map(self._is_secret, names))
        return ("value", "values") if is_one else ()

    def _is_a_secret_pair(self, pair: list[Any]) -> tuple[int, ...]:
        """The index of the secret, as in ["Authorization", …]."""
        is_one = len(pair) == 2 and isinstance(pair[0], str) and self._is_secret(pair[0])  # noqa: PLR2004 - a name and its value
        return (1,) if is_one else ()

    def _text(self, text: str) -> str:
        if text.lstrip()[:1] in ("{", "["):
            try:
                value = json.loads(text)
            except (ValueError, RecursionError):
                pass
            else:
                return json.dumps(value, ensure_ascii=False) if self._within(value) else text
        parts, at = list[str](), 0
        for found in _KEY.finditer(text):
            if found.start() < at or not self._is_secret(found[1]):
                continue
            ends = _AFTER_COLON if ":" in found[2] else _AFTER_EQUALS
            if (value := ends.match(text, found.end())) is not None:
                parts += [text[at : found.end()], MASK]
                at = value.end()
        return redact("".join([*parts, text[at:]]))

    def _has_a_word(self, key: str) -> bool:
        plain = _plain(key)
        is_declared = key in self._declared or plain in self._names
        return is_declared or any(word in plain for word in self._words)


def _plain(name: str) -> str:
    """apiKey, API-Key and api_key are equal."""
    return _NOT_IN_NAMES.sub("", name).casefold()


def _tells(value: object) -> bool:
    """null, true, false and "" could not be secrets."""
    return value is not None and not isinstance(value, bool) and value != ""
