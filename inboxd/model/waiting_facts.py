"""Facts of causes: what can be looked at, as an object with its kind; and times.

Pure. *See:* `waiting_rules`, `waiting_before`.
"""

from datetime import datetime
from typing import Any

from inboxd.model.waiting import Facts


def row_of(kind: str, row: Facts) -> dict[str, Any]:
    """A command, event or batch that can be looked at."""
    return {"kind": kind, "id": row["id"], "type": row["type"]}


def named(kind: str, name: str) -> dict[str, Any]:
    """A thing that has a name."""
    return {"kind": kind, "name": name}


def type_of(kind: str, facts: Facts) -> dict[str, Any]:
    """The row's own type."""
    return {"kind": f"{kind} type", "name": facts["type"]}


def at(text: str) -> datetime:
    """A time, as JSON has it."""
    return datetime.fromisoformat(text)


def is_later(text: str, facts: Facts) -> bool:
    """Whether a time is still to come."""
    return at(text) > at(facts["now"])
