"""Addresses of pages, with their state in the query.

Promises that nothing of a value leaves the place it has in an address. Known limit: the prefix that
the screens are under is put before it by `url` of the templates.
"""

from collections.abc import Iterable
from urllib.parse import quote, urlencode

Pairs = Iterable[tuple[str, str]]


def with_query(path: str, pairs: Pairs, **changes: object) -> str:
    """A path with these pairs, less those without a value, and with others for some names.

    None takes a name out.
    """
    kept = [(name, value) for name, value in pairs if value and name not in changes]
    kept += [(name, str(value)) for name, value in changes.items() if value not in (None, "")]
    return f"{path}?{urlencode(kept)}" if kept else path


def path_of(*parts: object) -> str:
    """A path of these parts, each one of its own whatever it holds."""
    return "".join(f"/{quote(str(part), safe='')}" for part in parts)
