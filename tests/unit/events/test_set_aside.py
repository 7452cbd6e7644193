"""Events that are set aside: passed over for a while, and then tried again."""

from inboxd.events.set_aside import SetAside


def test_an_event_is_set_aside_for_a_minute() -> None:
    now = 1000.0
    aside = SetAside(lambda: now)
    assert _seconds(aside) is None
    aside.put(7)
    now += 20
    aside.put(8)
    assert [aside.has(each) for each in (7, 8, 9)] == [True, True, False]
    assert _seconds(aside) == 40
    now += 45
    assert [aside.has(each) for each in (7, 8)] == [False, True]
    assert _seconds(aside) == 15


def _seconds(aside: SetAside) -> float | None:
    return aside.again
