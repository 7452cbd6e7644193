"""When a stream of rows begins, how long it lasts, and when it ends."""

from inboxd.model.stream import LASTS, Stream


def _flow(stream: Stream, rows: int, every: float, since: float, until: float) -> float:
    now = since
    while now < until:
        stream.come(rows, now)
        now += every
    return now - every


def test_a_stream_lasts_for_a_moment() -> None:
    stream = Stream()
    assert not stream.lasts(50.0), "no rows came"
    last = _flow(stream, 10, 0.002, 50.0, 50.5)
    assert stream.lasts(last)
    assert stream.lasts(last + 0.9 * LASTS)
    assert not stream.lasts(last + 1.1 * LASTS)


def test_page_is_a_stream_and_a_few_rows_are_not() -> None:
    page, few = Stream(), Stream()
    page.come(500, 50.0)
    few.come(50, 50.0)
    assert (page.lasts(50.01), few.lasts(50.01)) == (True, False)


def test_trickle_after_a_stream_soon_ends_it() -> None:
    stream = Stream()
    last = _flow(stream, 10, 0.002, 50.0, 110.0)
    assert stream.lasts(last)
    last = _flow(stream, 1, 0.02, last + 0.02, last + 5.0)
    assert not stream.lasts(last)


def test_trickle_is_not_a_stream() -> None:
    stream = Stream()
    for until in range(51, 60):
        assert not stream.lasts(_flow(stream, 1, 0.02, until - 1, until))
