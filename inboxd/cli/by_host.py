"""Combines the rows of one supervisor's processes; two of one name on one host are shown as one."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

Row = Mapping[str, Any]


def together(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """`processes`: their numbers; other numbers are added up; `silence` is the longest one."""
    groups: dict[object, list[Row]] = {}
    for row in rows:
        own = row["id"] if row["process"] is None else (row["name"], row["host"])
        groups.setdefault(own, []).append(row)
    return [_as_one(group) for group in groups.values()]


def _as_one(group: list[Row]) -> dict[str, Any]:
    first = dict(group[0])
    numbers = sorted(row["process"] for row in group if row["process"] is not None)
    one = {
        **first,
        "processes": numbers,
        "state": _states(group),
        "silence": max(row["silence"] for row in group),
        "started_at": min(row["started_at"] for row in group),
    }
    if "in_flight" in first:
        for name in ("in_flight", "events_in_flight", "commands_in_flight"):
            one[name] = _sum([row[name] for row in group])
        one["leads"] = any(row["leads"] for row in group)
    if "sources" in first:
        for name in ("sources", "spooled"):
            one[name] = sorted({source for row in group for source in row[name]})
        one["broken"] = any(row["broken"] for row in group)
        one["trouble"] = next((row["trouble"] for row in group if row["trouble"]), None)
    return one


def _sum(numbers: list[int | None]) -> int | None:
    """Add numbers; None if one of them is unknown."""
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


def _states(group: list[Row]) -> str:
    states = Counter(str(row["state"]) for row in group)
    if len(states) == 1:
        return str(group[0]["state"])
    return ", ".join(f"{count} {state}" for state, count in states.most_common())
