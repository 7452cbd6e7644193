"""The slices of a donut by type: the most common types, and all others as one."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from inboxd.admin.screens.charts import Slice

# Types with a slice of their own.
MOST: Final = 7


def type_slices(
    types: Sequence[tuple[str, int]], titles: Mapping[str, str], address: Callable[..., str]
) -> dict[str, Any]:
    """types: the most common first; an empty one has no link. titles: of the first `MOST`."""
    found: list[dict[str, Any]] = [
        {
            "type": type_,
            "title": titles[type_],
            "look": f"hue-{place}",
            "count": count,
            "rows": address(type=type_) if type_ else None,
        }
        for place, (type_, count) in enumerate(types[:MOST], start=1)
    ]
    others = sum(count for _, count in types[MOST:])
    if others:
        # No filter selects the rows of all types but these.
        rest = {"type": None, "title": "…", "look": f"hue-{MOST + 1}", "count": others}
        found.append({**rest, "rows": None})
    return {
        "types": found,
        "slices": [
            Slice(each["title"], each["look"], each["count"], each["rows"]) for each in found
        ],
    }
