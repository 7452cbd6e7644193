"""How often a process collects garbage cycles: seldom, since a page has thousands of new objects.

Measured: 14 microseconds of CPU instead of 21 for an event of a relay. If worker and receiver share
a process, the lower number counts. Settings that a plugin has changed are kept.
"""

import gc

# New objects, minus freed ones, between two looks. Handlers' garbage may hold much memory, so their
# number is lower; requests leave no cycles (tests/inbound/test_answers_garbage.py).
OF_HANDLERS = 5_000
OF_REQUESTS = 20_000
_DEFAULT = gc.get_threshold()
_OURS = [(each, *_DEFAULT[1:]) for each in (OF_HANDLERS, OF_REQUESTS)]


def look_for_garbage_seldom(objects: int) -> None:
    """Set the collector; it never visits objects that exist now, mostly modules, again."""
    now = gc.get_threshold()
    if gc.isenabled() and now == _DEFAULT:
        gc.collect()
        gc.freeze()
        gc.set_threshold(objects)
    elif gc.isenabled() and now in _OURS:
        gc.set_threshold(min(objects, now[0]))
