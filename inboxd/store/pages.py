"""Pages of rows that handlers sent or emitted: how many rows one statement takes.

At most 5,000 rows and 8 million characters, or one larger row: an array is limited to 1 GB.
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
