"""Addresses of pages, quoted, with their state in the query; `url` adds the screens' prefix."""

from collections.abc import Iterable
from urllib.parse import quote, urlencode

Pairs = Iterable[tuple[str, str]]


def with_query(path: str, pairs: Pairs, **changes: object) -> str:
    """Leave out pairs without a value. changes: other values for names; None removes a name."""
    kept = [(name, value) for name, value in pairs if value and name not in changes]
    kept += [(name, str(value)) for name, value in changes.items() if value not in (None, "")]
    return f"{path}?{urlencode(kept)}" if kept else path


def path_of(*parts: object) -> str:
    return "".join(f"/{quote(str(part), safe='')}" for part in parts)


def of_name(kind: str, name: str) -> str | None:
    """A schedule, breaker or source has a list with this name alone."""
    if kind in ("queue", "topic", "endpoint"):
        return path_of(f"{kind}s", name)
    if kind in ("schedule", "breaker", "source"):
        return with_query(f"/{kind}s", [("q", name)])
    return None
