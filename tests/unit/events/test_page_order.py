"""Events of a page whose breaker this worker probes: a row that may be no probe does not run."""

from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock, MagicMock

import pytest

from inboxd.events.page_order import PageOrder
from inboxd.events.page_run import PageRun
from inboxd.events.settling import PageResults
from inboxd.store.rows import ClaimedEvent

pytestmark = pytest.mark.anyio


def _row(row_id: int) -> ClaimedEvent:
    row = {"id": row_id, "topic": "scores", "type": "match.won", "ordering_key": f"k{row_id}"}
    more = {"position": None, "behind": False, "ready": True, "body_id": None, "payload": "{}"}
    return cast(
        "ClaimedEvent", {**row, **more, "body_bytes": None, "headers_bytes": None, "headers": None}
    )


@pytest.fixture
def parts() -> Any:
    """One probe may run."""
    made = MagicMock()
    made.breakers.probing = frozenset({"target"})
    made.breakers.admit.side_effect = lambda _kind, _topic, _type, row_id: row_id == 1
    return made


def test_line_of_an_event_that_may_not_probe_stands_still(parts: Any) -> None:
    order = PageOrder(parts)
    assert [order.may_run(_row(number)) for number in (1, 2)] == [True, False]
    assert order.lines == {("scores", "k2")}
    assert order.lined_up == [2]


async def test_page_ends_before_an_event_that_may_not_probe(
    parts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts.controls.version = 1
    limits = SimpleNamespace(page_time=MagicMock(), page_bytes=1_000)
    limits.page_time.total_seconds.return_value = 3600.0
    settling: Any = SimpleNamespace(limits=limits)
    run, results, began = PageRun(parts, settling, MagicMock()), PageResults(), AsyncMock()
    monkeypatch.setattr(run, "_run_one", began)
    session: Any = MagicMock()
    await run.run(session, [_row(1), _row(2), _row(3)], results)
    assert (results.met, began.await_count) == (1, 1)
