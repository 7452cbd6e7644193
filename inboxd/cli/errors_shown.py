"""The errors of a row as a person reads them: the newest first, equal ones together.

Known limit: errors that differ in a number alone, such as a port, are two.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from inboxd.cli.output import Fields
from inboxd.cli.output import show as shown

# What tells an attempt from the next, though both failed in the same way.
_OF_ATTEMPT = ("at", "attempt", "worker", "process")

Error = Mapping[str, Any]


def folded(errors: Sequence[Error]) -> Iterator[Fields]:
    """A part for each run of equal ones, the newest first. errors: the oldest first."""
    for run in reversed(_runs(errors)):
        last = run[-1]
        told = {key: value for key, value in last.items() if key != "at"}
        heading = f"Error at {_time(last)}"
        if len(run) > 1:
            heading += f", the same since {_time(run[0])}"
            told["attempt"] = f"{run[0].get('attempt')} to {last.get('attempt')}, {len(run)} times"
        yield Fields(told, heading)


def fields_at_fault(errors: Sequence[Error]) -> list[str]:
    """The payload's fields that errors name, each once."""
    return list(dict.fromkeys(str(each["path"]) for each in errors if each.get("path")))


def _runs(errors: Sequence[Error]) -> list[list[Error]]:
    """Those that follow each other and say the same."""
    runs: list[list[Error]] = []
    for each in errors:
        if runs and _said(runs[-1][-1]) == _said(each):
            runs[-1].append(each)
        else:
            runs.append([each])
    return runs


def _said(error: Error) -> dict[str, Any]:
    return {key: value for key, value in error.items() if key not in _OF_ATTEMPT}


def _time(error: Error) -> str:
    at = error.get("at")
    return shown(None if at is None else datetime.fromisoformat(at))
