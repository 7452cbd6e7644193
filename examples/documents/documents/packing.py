"""Packs PDFs into boxes, and searches for a packing with few boxes, which may take long.

Owns the search. Promises: the same sizes and the same rounds give the same packing; the search
waits for nothing and writes nothing, so it may be stopped at any time.
Known limit: it finds a good packing, not the best one.
"""

import random
from collections.abc import Mapping

# The documents in each box.
Packing = list[list[int]]


def search(sizes: Mapping[int, int], capacity: int, rounds: range) -> Packing:
    """The packing with the fewest boxes that these rounds find."""
    return min((_pack(sizes, capacity, number) for number in rounds), key=len)


def _pack(sizes: Mapping[int, int], capacity: int, number: int) -> Packing:
    """Put each document into the first box with room; round 0 begins with the largest document.

    Other rounds use a random order.
    """
    order = sorted(sizes, key=lambda each: (-sizes[each], each))
    if number:
        random.Random(number).shuffle(order)
    boxes: Packing = []
    room: list[int] = []
    for each in order:
        size = sizes[each]
        box = next((n for n, free in enumerate(room) if free >= size), len(boxes))
        if box == len(boxes):
            boxes.append([])
            room.append(capacity)
        boxes[box].append(each)
        room[box] -= size
    return boxes
