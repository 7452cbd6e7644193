"""Events that are set aside: for a while, and then tried again."""

from inboxd.events.set_aside import SetAside


def test_it_is_for_a_minute() -> None:
    now = 1000.0
    aside = SetAside(lambda: now)
    assert aside.again is None
    aside.put(7)
    now += 20
    aside.put(8)
    assert (aside.has(7), aside.has(8), aside.has(9), aside.again) == (True, True, False, 40.0)
    now += 45
    assert (aside.has(7), aside.has(8), aside.again) == (False, True, 15.0)
