"""How often a process collects garbage cycles.

By default Python looks after every few hundred new objects; a page of rows, or of requests that
wait for one commit, has thousands, and each look passes over all of them. Measured: 14 microseconds
of CPU instead of 21 for an event of a relay. If worker and receiver share a process, the lower
number counts. If a plugin has changed the collector's settings, they stay. Known limit: up to that
many objects in cycles, and whatever they refer to, stay until the next look; all other objects are
freed at once, as always.
"""

import gc

# New objects, less the freed ones, between two looks. Garbage of handlers may hold much
# memory, so their number is lower; a request leaves none (tests/inbound/test_answers_garbage.py).
OF_HANDLERS = 5_000
OF_REQUESTS = 20_000
_DEFAULT = gc.get_threshold()
_OURS = [(each, *_DEFAULT[1:]) for each in (OF_HANDLERS, OF_REQUESTS)]


def look_for_garbage_seldom(objects: int) -> None:
    """Set the collector; objects that exist now, above all modules, are never looked at again."""
    now = gc.get_threshold()
    if gc.isenabled() and now == _DEFAULT:
        gc.collect()
        gc.freeze()
        gc.set_threshold(objects)
    elif gc.isenabled() and now in _OURS:
        gc.set_threshold(min(objects, now[0]))
