"""Titles and descriptions of types and schedules, for people.

Promises: a text, declared or taken from a docstring, is one line of a bounded length, without
control characters. Known limit: a type without a title gets one from its name where it is shown
(`inboxd.model.wording.title_from`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal

from inboxd.errors import UsageError
from inboxd.model.wording import one_line

_LONGEST = {"title": 80, "description": 300}


def check_label(what: Literal["title", "description"], text: object) -> None:
    """Raise UsageError for a title or a description that cannot be shown in one line."""
    if text is None:
        return
    longest = _LONGEST[what]
    if not isinstance(text, str) or not text.strip() or not text.isprintable():
        raise UsageError(f"{what}=: give one line of text, without control characters.")
    if len(text) > longest:
        raise UsageError(f"{what}=: at most {longest} characters, not {len(text)}.")


def described(given: str | None, func: Callable[..., Any]) -> str | None:
    """The given description, or else the first line of the docstring."""
    if given is not None:
        return given
    first = (inspect.getdoc(func) or "").strip().partition("\n")[0]
    return one_line(first, _LONGEST["description"]) or None
