"""Facts of causes: things as objects with a kind, for links; and times."""

from datetime import datetime
from typing import Any

from inboxd.model.waiting import Facts


def row_of(kind: str, row: Facts) -> dict[str, Any]:
    return {"kind": kind, "id": row["id"], "type": row["type"]}


def named(kind: str, name: str) -> dict[str, Any]:
    return {"kind": kind, "name": name}


def type_of(kind: str, facts: Facts) -> dict[str, Any]:
    return {"kind": f"{kind} type", "name": facts["type"]}


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def is_later(text: str, facts: Facts) -> bool:
    return at(text) > at(facts["now"])
