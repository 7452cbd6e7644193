"""Which PDF goes into which box, so that few boxes are needed: a search that may take long.

Owns the search. Promises: the same sizes and the same numbers of rounds give the same packing;
nothing here waits or writes, so it may be stopped anywhere. Known limit: it finds a good packing,
not the best there is.
"""

import random
from collections.abc import Mapping

# Of each box, what is in it.
Packing = list[list[int]]


def search(sizes: Mapping[int, int], capacity: int, rounds: range) -> Packing:
    """The packing with the fewest boxes that these rounds find."""
    return min((_pack(sizes, capacity, number) for number in rounds), key=len)


def _pack(sizes: Mapping[int, int], capacity: int, number: int) -> Packing:
    """Each into the first box with room; the largest first, then in orders by chance."""
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
