"""Reads a scheme's options, which the settings pass on unchecked; raises SettingsError."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from inboxd.errors import SettingsError
from inboxd.model.spelling import did_you_mean

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")


def known(options: Mapping[str, Any], names: Collection[str]) -> None:
    for name in options:
        if name not in names:
            hint = did_you_mean(name, names) or f"; it has: {', '.join(names) or 'none'}."
            raise SettingsError(f"this scheme has no option {name!r}{hint}")


def text(options: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """A text option. `default` None: it is required."""
    value = options.get(name, default)
    if value is None:
        raise SettingsError(f"{name} is missing: this scheme needs it.")
    if not isinstance(value, str):
        raise SettingsError(f"{name} is {type(value).__name__}: give text.")
    return value


def choice(options: Mapping[str, Any], name: str, of: Sequence[str]) -> str:
    """An option with a fixed set of values; the first is the default."""
    value = text(options, name, of[0])
    if value not in of:
        raise SettingsError(f"{name} is {value!r}: give one of {', '.join(of)}.")
    return value


def name_of_header(options: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = text(options, name, default).lower()
    if value != default and not _HEADER.fullmatch(value):
        raise SettingsError(f"{name} is {value!r}, which is not the name of a header.")
    return value
