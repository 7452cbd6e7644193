"""Addresses of pages, with their state in the query.

Promises that values are quoted, so that none changes the structure of an address. Known limit: the
screens' prefix is missing; the templates add it with `url`.
"""

from collections.abc import Iterable
from urllib.parse import quote, urlencode

Pairs = Iterable[tuple[str, str]]


def with_query(path: str, pairs: Pairs, **changes: object) -> str:
    """A path with a query of these pairs; pairs without a value are left out.

    changes: other values for some names; None removes a name.
    """
    kept = [(name, value) for name, value in pairs if value and name not in changes]
    kept += [(name, str(value)) for name, value in changes.items() if value not in (None, "")]
    return f"{path}?{urlencode(kept)}" if kept else path


def path_of(*parts: object) -> str:
    """A path of these segments, each quoted."""
    return "".join(f"/{quote(str(part), safe='')}" for part in parts)


def of_name(kind: str, name: str) -> str | None:
    """The page of a queue, topic or endpoint, or the list that has only what is called so."""
    if kind in ("queue", "topic", "endpoint"):
        return path_of(f"{kind}s", name)
    if kind in ("schedule", "breaker", "source"):
        return with_query(f"/{kind}s", [("q", name)])
    return None
