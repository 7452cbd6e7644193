"""Queues with limits and lines: which keys a claim asks, and when a contended claim is retried."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from inboxd.commands.admission import Admission
from inboxd.commands.sources import limited as module
from inboxd.commands.sources.key_runs import KeyRuns
from inboxd.commands.sources.limited import LimitedQueues
from inboxd.model.priority_order import Ask, PriorityOrder
from inboxd.settings import Settings
from inboxd.store import limits
from inboxd.store.limits import Claimed, Wanted

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def _borrow(_pool: object) -> AsyncIterator[object]:
    yield None


class Site:
    """`LimitedQueues` whose claims are answered by the test, and its clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *keys: str, **settings: int) -> None:
        self.now = 100.0
        self.answers: list[Claimed] = []
        self.asked: list[Wanted] = []
        outcomes: Any = SimpleNamespace(through=0, handed_over=0)
        queues: Any = {"q": settings}
        parts: Any = MagicMock(
            settings=Settings(database={"dsn": "postgresql:///x"}, queues=queues),  # type: ignore[arg-type]
            registry=SimpleNamespace(commands={"t": None}, command_types=["t"]),
        )
        parts.queues.by_name = parts.settings.queues
        parts.breakers.probing = frozenset()
        admission = Admission(
            parts.settings, parts.queues.by_name, parts.registry, parts.controls, parts.breakers
        )
        admission.prefetch.took = 0.001
        self.key_runs = KeyRuns(admission.key_concurrency)
        self.limited = LimitedQueues(
            parts.pool,
            parts.me.id,
            parts.metrics,
            outcomes,
            self.key_runs,
            admission,
            PriorityOrder({}),
        )
        self.limited._of("q").keys.turns.add(keys)

        async def claim(*arguments: Any) -> Claimed:
            self.asked.append(arguments[-1])
            return self.answers.pop(0)

        monkeypatch.setattr(module, "monotonic", lambda: self.now)
        monkeypatch.setattr(module, "borrow", _borrow)
        monkeypatch.setattr(limits, "claim", claim)

    async def claim(self, answer: Claimed, room: int = 100) -> None:
        """Claim up to `room`, and let this be the answer."""
        self.answers.append(answer)
        await self.limited.claim(Ask(0, "q"), room)


def _rows(*keys: str) -> Any:
    return [{"ordering_key": key, "crashes": 0, "lane": 0} for key in keys]


async def test_a_contended_claim_is_retried_for_a_short_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = Site(monkeypatch, "a")
    for _ in range(module._CONTENDED_RETRIES):
        await site.claim(Claimed([], "busy", 0.003))
        assert site.limited.contended
        assert site.limited.again_in(["q"]) == pytest.approx(0.003)
        site.now += 0.003
        assert not site.limited.contended, "the claim is tried again"
    await site.claim(Claimed([], "busy", 0.003))
    assert not site.limited.contended, "it takes too long: look at other queues"


async def test_a_queue_that_is_not_asked_causes_no_wake_up(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(monkeypatch, "a")
    await site.claim(Claimed([], "full", None))
    assert site.limited.again_in(["q"]) is not None
    site.now += 60
    assert site.limited.ready({"q": []}) == ["q"]
    assert site.limited.again_in(["q"]) == 0.0
    assert site.limited.again_in([]) is None, "for example since it is paused"


async def test_a_time_that_passes_while_others_are_asked_is_not_slept_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = Site(monkeypatch, "a")
    await site.claim(Claimed([], "rate", 0.010))
    site.now += 0.009
    assert site.limited.ready({"q": []}) == [], "a little too early"
    site.now += 0.002
    assert site.limited.again_in([]) == 0.0
    site.limited.ready({})
    assert site.limited.again_in([]) is None, "it could have been asked by now"


async def test_a_claim_asks_about_twice_the_keys_that_fill_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys = [f"k{n}" for n in range(100)]
    site = Site(monkeypatch, *keys)
    await site.claim(Claimed(_rows(*[key for key in keys[:10] for _ in range(10)])))
    assert site.asked[-1].keys == keys, "how many rows they have is not known"
    await site.claim(Claimed(_rows(*keys[10:30])))
    assert site.asked[-1].keys == keys[10:30], "each had ten rows, so ten keys should be enough"
    await site.claim(Claimed(_rows(*keys[30:])))
    assert site.asked[-1].keys == keys[30:], "each had one row: ask all of them"


async def test_keys_that_a_limit_left_no_room_for_keep_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = Site(monkeypatch, *"abcdef", total_concurrency=2)
    await site.claim(Claimed(_rows("a", "c")))
    assert site.asked[-1].keys == list("abcdef")
    await site.claim(Claimed(_rows("d", "e")))
    assert site.asked[-1].keys == list("def"), "b had no rows"
    await site.claim(Claimed([]))
    assert site.asked[-1].keys == ["f"]
    assert site.limited.again_in(["q"]) is None, "nothing came: it is not asked in a loop"


async def test_keys_that_another_worker_asks_come_after_all_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = Site(monkeypatch, *"abcdefgh")
    await site.claim(Claimed(_rows("b", "c"), passed=["a", "d"]), room=4)
    await site.claim(Claimed([], "busy", 0.005, ["e"]), room=1)
    assert site.limited.contended
    site.now += 0.005
    await site.claim(Claimed())
    asked = ["".join(want.keys) for want in site.asked]
    assert asked == ["abcd", "e", "fghade"]


async def test_a_line_continues_if_no_other_key_waits_for_a_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = Site(monkeypatch, "a")
    keys, runs = site.limited._of("q").keys, site.key_runs
    rows: Any = [
        {"id": n, "queue": "q", "ordering_key": "a", "crashes": 0, "lane": 0, "type": "t"}
        for n in range(40)
    ]
    await site.claim(Claimed(rows[:20], at=7.0))
    runs.begin(rows[:20], 0)
    keys._next_learn = site.now + 1
    await site.claim(Claimed(rows[20:], passed=["a"], at=8.0))
    assert (site.asked[-1].keys, site.asked[-1].following) == (["a"], 7.0)
    assert len(keys.turns) == 0, "it has no turn of its own, even if it was passed"
    runs.begin(rows[20:], 0)
    keys.turns.add(["b"])
    await site.claim(Claimed())
    assert (site.asked[-1].keys, site.asked[-1].following) == (["b"], None)


async def test_no_line_continues_after_a_lost_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(monkeypatch, "a")
    rows: Any = [
        {"id": n, "queue": "q", "ordering_key": "a", "crashes": 0, "lane": 0} for n in range(20)
    ]
    site.key_runs.begin(rows, 0)
    assert site.key_runs.expect("q", 99, 9) == ["a"]
    site.limited.forget()
    assert site.key_runs.expect("q", 99, 9) == []
