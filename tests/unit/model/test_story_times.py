"""Stretches of waiting and work of a row, computed from its columns."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from inboxd.model.story import Member, Sketch
from inboxd.model.story_times import WAITED, RowTimes, times_of, waterfall

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def member(
    status: str,
    *,
    kind: str = "command",
    id: int = 1,
    attempts: int = 1,
    created: float = 0,
    due: float | None = 0,
    began: float | None = None,
    ended: float | None = None,
    seconds: float | None = None,
) -> Member:
    return Member(
        *(kind, id, uuid4(), "ship", "default", status, attempts, at(created)),
        started_at=None if began is None else at(began),
        finished_at=None if ended is None else at(ended),
        seconds=seconds,
        run_at=None if due is None else at(due),
    )


def drawn(times: RowTimes) -> list[tuple[str, float, float | None]]:
    """Its stretches as (kind, start, end), in seconds after noon."""
    return [
        (
            each.how,
            (each.since - NOON).total_seconds(),
            None if each.until is None else (each.until - NOON).total_seconds(),
        )
        for each in times.stretches
    ]


@pytest.mark.parametrize(
    ("row", "failed", "stretches"),
    [
        (member("succeeded", ended=5, seconds=2), (), [("due", 0, 3), ("worked", 3, 5)]),
        (
            member("succeeded", due=10, ended=15, seconds=2),
            (),
            [("early", 0, 10), ("due", 10, 13), ("worked", 13, 15)],
        ),
        (
            member("succeeded", attempts=3, due=10, ended=15, seconds=5),
            (4, 8),
            [("early", 0, 10), ("worked", 10, 15)],
        ),
        (member("running", began=4), (), [("due", 0, 4), ("worked", 4, None)]),
        (member("pending", due=6), (), [("early", 0, 6), ("due", 6, None)]),
        (member("waiting", due=0), (), [("early", 0, None)]),
        (member("failed", due=6), (8,), [("early", 0, 6), ("due", 6, 8), ("dead", 8, None)]),
        (member("failed", due=6), (), [("dead", 6, None)]),
        (
            member("dismissed", due=6, ended=20),
            (8,),
            [("early", 0, 6), ("due", 6, 8), ("dead", 8, 20)],
        ),
        (member("cancelled", ended=7), (), [("due", 0, 7)]),
        (member("succeeded", kind="batch", due=None, ended=7), (), [("batch", 0, 7)]),
        (member("running", kind="batch", due=None), (), [("batch", 0, None)]),
        (member("waiting", kind="batch", due=None), (), [("early", 0, None)]),
        (member("stored", kind="receipt"), (), []),
    ],
)
def test_stretches_of_waiting_and_working(
    row: Member, failed: tuple[float, ...], stretches: list[tuple[str, float, float | None]]
) -> None:
    assert drawn(times_of(row, [at(each) for each in failed])) == stretches


def test_sums_and_open_stretches() -> None:
    done = times_of(member("succeeded", attempts=3, due=10, ended=15, seconds=2), [at(4), at(8)])
    assert (done.spent(WAITED), done.spent(("worked",)), done.earlier) == (13, 2, 2)
    assert (done.goes_on, done.ended) == (False, at(15))
    runs = times_of(member("running", attempts=1, began=4), [at(1)])
    assert (runs.spent(WAITED), runs.spent(("worked",)), runs.earlier) == (4, None, 1)
    assert runs.spent(("worked",), at(10)) == 6
    assert (runs.goes_on, runs.ended) == (True, None)
    at_once = times_of(member("succeeded", ended=2, seconds=2))
    assert (at_once.spent(WAITED), at_once.spent(("worked",))) == (0, 2)
    batch = times_of(member("succeeded", kind="batch", ended=7))
    assert batch.spent(WAITED) is None, "a batch itself does not work"


@pytest.mark.parametrize(
    "row",
    [
        member("succeeded", created=10, ended=5, seconds=2),
        member("succeeded", created=10, ended=11, seconds=9000),
        member("running", created=10, began=5),
        member("failed", created=10, due=3),
        member("dismissed", created=10, ended=5),
        member("cancelled", created=10, ended=5),
        member("failed", kind="batch", created=10, ended=5),
    ],
)
def test_clocks_that_were_set_back_make_no_time_negative(row: Member) -> None:
    times = times_of(row, [at(7)])
    for each in times.stretches:
        assert each.how == "worked" or each.since >= times.began
        assert each.until is None or each.until >= each.since
    assert (times.spent(WAITED, at(0)) or 0) >= 0


def test_a_waterfall_has_one_time_for_all_rows() -> None:
    top = member("succeeded", ended=5, seconds=2)
    sketch = Sketch(top)
    # Two rows at the same time, a running one, and an old dead letter.
    below = [
        member("succeeded", id=2, created=6, due=6, ended=10, seconds=3),
        member("succeeded", id=3, created=6, due=6, ended=11, seconds=3),
        member("failed", id=4, created=6, due=6),
    ]
    sketch.add(top.key, below)
    rows = {each.key: times_of(each) for each in (top, *below)}
    over = waterfall(sketch.draw(), rows, at(86_400))
    assert [(row.node.member.id, row.depth) for row in over.rows] == [
        (1, 0),
        (2, 1),
        (3, 1),
        (4, 1),
    ]
    assert (over.since, over.until, over.goes_on) == (NOON, at(11), False), (
        "the waterfall has ended"
    )
    assert over.worked == 2 + 4, "overlapping stretches count once"
    running = member("running", id=5, created=12, due=12, began=13)
    sketch.add(top.key, [running])
    rows[running.key] = times_of(running)
    so_far = waterfall(sketch.draw(), rows, at(20))
    assert (so_far.until, so_far.goes_on, so_far.worked) == (at(20), True, 2 + 4 + 7)
    happened = waterfall(sketch.draw(), rows, at(20), to_now=False)
    assert (happened.until, happened.worked) == (at(13), 2 + 4)
