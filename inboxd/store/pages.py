"""Pages of rows that handlers sent or emitted: how many rows one statement takes.

Owns their bounds: 5,000 rows, and about 8 million characters, which keeps a statement's arrays far
below PostgreSQL's limit of 1 GB. Promises that pages are in order, and that each has at least one
row. Known limit: a row above the bound is a page of its own.
"""

from collections.abc import Iterable, Iterator

_ROWS = 5_000
_CHARACTERS = 8_000_000


def pages(sizes: Iterable[int]) -> Iterator[slice]:
    """Cut rows with these numbers of characters into slices, one per page."""
    start, end, characters = 0, 0, 0
    for size in sizes:
        end += 1
        characters += size
        if end - start == _ROWS or characters >= _CHARACTERS:
            yield slice(start, end)
            start, characters = end, 0
    if end > start:
        yield slice(start, end)
