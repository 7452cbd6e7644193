"""How `check` and `doctor` print findings: wrapped on a terminal, two lines each in a pipe."""

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
_LEAST_WIDTH = 30  # characters per line, even if the terminal is narrower


class FindingLine(NamedTuple):
    group: str
    subject: str
    verdict: str
    found: str
    remedy: str = ""


def print_findings(found: Iterable[FindingLine]) -> None:
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
            do, *more = _wrapped(_first_line(each.remedy), indent + 3)
            rest += [f"-> {do}", *(f"   {line}" for line in more)]
        for line in rest:
            say(" " * indent + line)


def _wrapped(text: str, indent: int) -> Iterator[str]:
    from textwrap import wrap

    shown = show(text)
    if not on_terminal():
        return iter([shown])
    room = max(terminal_width() - indent, _LEAST_WIDTH)
    return iter(wrap(shown, room, break_long_words=False, break_on_hyphens=False) or [""])


def _first_line(remedy: str) -> str:
    """Cut a remedy after its first line: a statement that creates a function has many lines."""
    first, cut, _ = remedy.partition("\n")
    return first + (" … (the whole statement: --json)" if cut else "")
