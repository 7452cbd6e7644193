"""The difference between two texts, line by line, for display."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final

_MOST_MATCHED: Final = 1_000  # lines


def difference(old: str, new: str) -> Iterator[tuple[str, str]]:
    """Each line has -, + or a space. Above `_MOST_MATCHED` lines, the whole middle is changed."""
    before, after = old.splitlines(), new.splitlines()
    if before == after:
        return
    first = _alike(before, after)
    last = _alike(before[first:][::-1], after[first:][::-1])
    yield from ((" ", line) for line in before[:first])
    yield from _changed(before[first : len(before) - last], after[first : len(after) - last])
    yield from ((" ", line) for line in before[len(before) - last :])


def _alike(some: Sequence[str], others: Sequence[str]) -> int:
    pairs = enumerate(zip(some, others, strict=False))
    return next((n for n, (one, other) in pairs if one != other), min(len(some), len(others)))


def _changed(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[str, str]]:
    parts: Sequence[tuple[str, int, int, int, int]] = [("replace", 0, len(before), 0, len(after))]
    if len(before) + len(after) <= _MOST_MATCHED:  # matching takes quadratic time
        parts = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    for tag, begin, end, new_begin, new_end in parts:
        if tag == "equal":
            yield from ((" ", line) for line in before[begin:end])
        else:
            yield from (("-", line) for line in before[begin:end])
            yield from (("+", line) for line in after[new_begin:new_end])
