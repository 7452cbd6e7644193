"""The errors of a row for display: newest first, consecutive equal errors together."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from inboxd.cli.output import Fields
from inboxd.cli.output import show as shown

# Fields that differ between attempts with the same error.
_OF_ATTEMPT = ("at", "attempt", "worker", "process")

Error = Mapping[str, Any]


def folded(errors: Sequence[Error]) -> Iterator[Fields]:
    """Yield a part for each run of equal errors, newest first. errors: oldest first."""
    for run in reversed(_runs(errors)):
        last = run[-1]
        fields = {key: value for key, value in last.items() if key != "at"}
        heading = f"Error at {_time(last)}"
        if len(run) > 1:
            heading += f", the same since {_time(run[0])}"
            attempts = f"{run[0].get('attempt')} to {last.get('attempt')}, {len(run)} times"
            fields["attempt"] = attempts
        yield Fields(fields, heading)


def fields_at_fault(errors: Sequence[Error]) -> list[str]:
    return list(dict.fromkeys(str(each["path"]) for each in errors if each.get("path")))


def _runs(errors: Sequence[Error]) -> list[list[Error]]:
    runs: list[list[Error]] = []
    for each in errors:
        if runs and _without_attempt(runs[-1][-1]) == _without_attempt(each):
            runs[-1].append(each)
        else:
            runs.append([each])
    return runs


def _without_attempt(error: Error) -> dict[str, Any]:
    return {key: value for key, value in error.items() if key not in _OF_ATTEMPT}


def _time(error: Error) -> str:
    at = error.get("at")
    return shown(None if at is None else datetime.fromisoformat(at))
