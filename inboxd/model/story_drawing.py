"""A story as a list of rows for programs, and as a diagram.

No text of a row ends a label of the diagram, or becomes HTML; rows left out are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from inboxd.model.story import Key, Member, StoryNode
from inboxd.model.story_times import WAITED, RowTimes
from inboxd.model.wording import printable

_STYLES = {
    "succeeded": "fill:#d5e8d4,stroke:#4c8a4a",
    "failed": "fill:#f8cecc,stroke:#b85450",
    "running": "fill:#dae8fc,stroke:#6c8ebf",
    "waiting": "fill:#fff2cc,stroke:#d6b656",
}
_ESCAPES = {ord(character): f"#{ord(character)};" for character in '&#"<>%`$\\'}


def topic_of(member: Member) -> str:
    """The topic of an event: an event in several topics has a row, and a story, in each."""
    return f"in {member.lane}" if member.kind == "event" else ""


def rest_of(node: StoryNode) -> str:
    if node.cut:
        return "…" if node.member.counts is None or node.member.counts["size"] else ""
    if not node.hidden:
        return ""
    counted = ", ".join(f"{count:,} {status}" for status, count in node.hidden.items())
    return f"… {counted} more{', or even more' if node.unsure else ''}"


def diagram(top: StoryNode) -> Iterator[str]:
    yield "flowchart TD"
    names = {node.member.key: f"{node.member.kind}{node.member.id}" for node in top.walk()}
    for node in top.walk():
        name, member = names[node.member.key], node.member
        style = f":::{member.status}" if member.status in _STYLES else ""
        texts = (member.name, member.type, topic_of(member), member.status, *node.notes)
        yield f'  {name}["{"<br/>".join(map(_escaped, filter(None, texts)))}"]{style}'
        for child in node.children:
            yield f"  {name} --> {names[child.member.key]}"
        if rest := rest_of(node):
            yield f'  {name} -.-> {name}_more["{_escaped(rest)}"]'
    for status, style in _STYLES.items():
        yield f"  classDef {status} {style}"


def _escaped(text: str) -> str:
    return printable(text.translate(_ESCAPES))


def as_json(top: StoryNode, times: Mapping[Key, RowTimes]) -> list[dict[str, Any]]:
    """A tree as a flat list of rows, each after its parent, with its times."""
    rows = []
    for node in top.walk():
        row = {each.name: getattr(node.member, each.name) for each in fields(Member)}
        rows.append(
            {
                **row,
                "parent": None,
                "notes": node.notes,
                "hidden": dict(node.hidden),
                "unsure": node.unsure,
                "cut": node.cut,
                **_times(times[node.member.key]),
            }
        )
    parents = {child.member.key: node.member.key for node in top.walk() for child in node.children}
    for row in rows:
        row["duration"] = row.pop("seconds")
        row["parent"] = parents.get((row["kind"], row["id"]))
    return rows


def _times(times: RowTimes) -> dict[str, Any]:
    """The times of a row; a stretch that goes on has no end, and no sum."""
    return {
        "waited": times.spent(WAITED),
        "worked": times.spent({"worked"}),
        "stretches": [
            {"how": each.how, "since": each.since, "until": each.until} for each in times.stretches
        ],
        "failed_at": times.failed,
        "replayed_at": times.replayed,
    }
