"""Pages of what handlers sent and emitted: how much one statement takes.

Owns their bounds: 5,000 rows, and about 8 million characters, which keeps a statement's arrays far
from PostgreSQL's limit of 1 GB. Promises that pages are in order, and that each has a row at least.
Known limit: a row larger than that is a page of its own.
"""

from collections.abc import Iterable, Iterator

_ROWS = 5_000
_CHARACTERS = 8_000_000


def pages(sizes: Iterable[int]) -> Iterator[slice]:
    """Where to cut rows of which each has so many characters."""
    start, end, characters = 0, 0, 0
    for size in sizes:
        end += 1
        characters += size
        if end - start == _ROWS or characters >= _CHARACTERS:
            yield slice(start, end)
            start, characters = end, 0
    if end > start:
        yield slice(start, end)
