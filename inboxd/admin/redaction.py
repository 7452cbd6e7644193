"""What is left out of contents before people see them: values of secret fields, payloads by type.

Owns which values are secrets, on the screens and in the admin API: by the name of their key, by the
type of the row, by what the type's handlers declare (`secret_keys` of a row, or of its type).
Promises: no value of such a key is shown, however deep it lies, also where it stands in a text of
JSON, of a form, of headers or of a message; it errs on the side of hiding too much, and what cannot
be looked into is hidden.
Known limits: a secret below a harmless name is shown; in a plain text one is taken to end with its
line, or with its word behind `=`. Error texts in lists are as they were stored, where
`model/masking.py` had hidden what it knows.
*See:* `settings/admin.py`, where it is set.
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

# Of keys that are declared: all of the payload (`api/secret_keys.py`).
WHOLE: Final = ""
# What holds a row's contents; and what a handler says of its work, where only keys decide.
_CONTENTS: Final = ("payload", "headers", "result")
_NOTES: Final = ("progress", "errors", "answer")
_OF_RECEIPTS: Final = ("headers", "body", "body_base64")
# Fields by which a list of objects names what another field holds.
_NAMING: Final = ("name", "key", "field", "header")
_NOT_IN_NAMES: Final = re.compile(r"[\W_]+")
# A word and what leads to its value, which may be quoted, also within JSON within JSON.
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
    """What is left out of rows of these types; None: of any of them."""
    return Redaction(settings, await listing.secret_keys(session, kind, types))


class Redaction:
    """What the settings want to be left out."""

    def __init__(self, settings: Admin, declared: Iterable[str] = ()) -> None:
        """By these settings, and of the keys that handlers declare as secrets."""
        self._settings = settings
        self._words = tuple(_plain(each) for each in settings.redact_keys)
        self._types = settings.hidden_types
        self._declared = frozenset(declared)
        self._names = frozenset(filter(None, map(_plain, self._declared)))
        self._is_secret = lru_cache(maxsize=2_000)(self._has_a_word)

    def hide(self, row: MutableMapping[str, Any]) -> bool:
        """Leave it out of a row, in place, and say whether there was any."""
        declared = row.get("secret_keys") or ()
        if not self._declared.issuperset(declared):
            return Redaction(self._settings, self._declared.union(declared)).hide(row)
        by_type = self.hides_type(row.get("type")) or WHOLE in self._declared
        found = [self._field(row, name, whole=by_type) for name in _CONTENTS]
        found += [self._field(row, name) for name in _NOTES]
        if isinstance(receipt := row.get("receipt"), dict):
            # What is no text cannot be looked into.
            binary = bool(self._words or self._declared)
            found += [
                self._field(receipt, name, whole=by_type or (binary and name == "body_base64"))
                for name in _OF_RECEIPTS
            ]
        return any(found)

    def hides_type(self, type_: object) -> bool:
        """Whether all contents of rows of this type are left out."""
        return any(fnmatchcase(str(type_), pattern) for pattern in self._types)

    def hides_some(self, texts: Iterable[str]) -> bool:
        """Whether something would be left out of one of these JSON texts."""
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
        """Leave it out of a JSON value that is an object or a list, in place."""
        hidden, left = False, [value]
        while left:  # not by recursion: it may be nested deeper than that goes
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
        """Of {"name": "Authorization", "value": …}: which fields hold what the others name."""
        names = [fields[name] for name in _NAMING if isinstance(fields.get(name), str)]
        is_one = "value" in fields and any(map(self._is_secret, names))
        return ("value", "values") if is_one else ()

    def _is_a_secret_pair(self, pair: list[Any]) -> tuple[int, ...]:
        """Of ["Authorization", …]: where the value is."""
        is_one = len(pair) == 2 and isinstance(pair[0], str) and self._is_secret(pair[0])  # noqa: PLR2004 - a name and its value
        return (1,) if is_one else ()

    def _text(self, text: str) -> str:
        """A text without them: of JSON, or of anything in which keys have values."""
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
    """A name by its letters and digits: apiKey, API-Key and api_key are one."""
    return _NOT_IN_NAMES.sub("", name).casefold()


def _tells(value: object) -> bool:
    """Whether a value could be a secret: nothing, yes and no are none."""
    return value is not None and not isinstance(value, bool) and value != ""
