"""How often a process looks for garbage that holds itself.

Python looks after every few hundred new objects; a page of rows, or of requests that wait for one
commit, has thousands, and each look passes over all of them. Measured: 14 microseconds of CPU for
an event of a relay instead of 21. Promises that who has set the collector otherwise, as a plugin
may at its import, keeps what was set. Known limit: so many objects that hold each other, whatever
hangs on them, stay until the next look; what is not held goes at once, as always.
"""

import gc

# New objects, beyond those that have gone, between two looks. Of handlers nobody knows what theirs
# hold; a request leaves none (tests/inbound/test_answers_garbage.py).
OF_HANDLERS = 5_000
OF_REQUESTS = 20_000
_DEFAULT = gc.get_threshold()


def look_for_garbage_seldom(objects: int) -> None:
    """From now on; what is there now, the modules above all, is not looked at any more."""
    if gc.isenabled() and gc.get_threshold() == _DEFAULT:
        gc.collect()
        gc.freeze()
        gc.set_threshold(objects)
