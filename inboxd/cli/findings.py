"""Verdicts as a person reads them: the subject, how bad it is, and what to do about it.

Owns how `inboxd check` and `inboxd doctor` print. Promises: on a terminal lines are wrapped, never
cut; in a pipe a finding is a line, and what to do is another.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import typer

from inboxd.cli.output import on_terminal, say, show, terminal_width

_STYLES: dict[str, dict[str, Any]] = {
    "ok": {"fg": "green"},
    "notice": {"fg": "cyan"},
    "warn": {"fg": "yellow"},
    "warning": {"fg": "yellow"},
    "fail": {"fg": "red", "bold": True},
    "critical": {"fg": "red", "bold": True},
}
_LEAST = 30  # characters to a line, even where the terminal has fewer


class FindingLine(NamedTuple):
    """A line for a person; remedy: what to do, empty if nothing."""

    group: str
    subject: str
    verdict: str
    found: str
    remedy: str = ""


def print_findings(found: Iterable[FindingLine]) -> None:
    """A line for each, under the heading of its group; below it what to do."""
    lines = list(found)
    subject = max((len(each.subject) for each in lines), default=0)
    verdict = max((len(each.verdict) for each in lines), default=0)
    last = None
    for each in lines:
        if each.group != last:
            say(("" if last is None else "\n") + typer.style(each.group, bold=True))
            last = each.group
        styled = typer.style(f"{each.verdict:<{verdict}}", **_STYLES[each.verdict])
        indent = 2 + verdict + 2 + subject + 2
        first, *rest = _wrapped(each.found, indent)
        say(f"  {styled}  {show(each.subject):<{subject}}  {first}")
        if each.remedy:
            do, *more = _wrapped(_brief(each.remedy), indent + 3)
            rest += [f"-> {do}", *(f"   {line}" for line in more)]
        for line in rest:
            say(" " * indent + line)


def _wrapped(text: str, indent: int) -> Iterator[str]:
    from textwrap import wrap

    told = show(text)
    if not on_terminal():
        return iter([told])
    room = max(terminal_width() - indent, _LEAST)
    return iter(wrap(told, room, break_long_words=False, break_on_hyphens=False) or [""])


def _brief(remedy: str) -> str:
    """Its first line; a function has many."""
    first, cut, _ = remedy.partition("\n")
    return first + (" … (the whole statement: --json)" if cut else "")
