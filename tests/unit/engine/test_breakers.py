"""Breakers that only calls name: each called name has one, and their number is bounded."""

import pytest

from inboxd.engine import breakers as breakers_module
from inboxd.engine.breakers import Breakers
from inboxd.registry.registry import make_registry
from inboxd.resilience.rules import BreakerRules
from inboxd.telemetry.metrics import Metrics

# The breakers hold an event of anyio, which older versions make in a running loop alone.
pytestmark = pytest.mark.usefixtures("anyio_backend")

HOLDER = ("queue", 1)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics("test")


@pytest.fixture
async def breakers(metrics: Metrics, monkeypatch: pytest.MonkeyPatch) -> Breakers:
    """Room for three names; the queue of a bank has a breaker of its own."""
    monkeypatch.setattr(breakers_module, "_MOST_UNDECLARED", 3)
    made = Breakers(make_registry({}, {}), metrics, on_change=lambda: None)
    made.need({"http.bank": "http.bank"})
    return made


def _call(breakers: Breakers, name: str, *, failed: bool = False) -> None:
    ticket = breakers.begin(name, HOLDER)
    assert ticket is not None
    breakers.end(name, HOLDER, ticket, failed=failed, began=0.0, reason="it is down")


def _open(breakers: Breakers, name: str) -> None:
    for _ in range(BreakerRules().consecutive_failures or 0):
        _call(breakers, name, failed=True)
    assert breakers.by_name[name].state == "open"
    breakers.by_name[name].written(1)


def test_the_breaker_with_the_oldest_call_is_forgotten(breakers: Breakers) -> None:
    for name in ("a", "b", "c", "a", "d"):
        _call(breakers, name)
    assert set(breakers.by_name) == {"http.bank", "a", "c", "d"}
    for n in range(1_000):
        _call(breakers, f"host {n}")
    assert len(breakers.by_name) == 1 + 3, "each had a breaker, and few are held at once"


def test_a_declared_breaker_is_never_forgotten(breakers: Breakers) -> None:
    for name in ("http.bank", "a", "b", "c", "d", "e"):
        _call(breakers, name)
    assert "http.bank" in breakers.by_name
    breakers.reload({"c": BreakerRules()})
    for name in ("f", "g", "h", "i"):
        _call(breakers, name)
    assert set(breakers.by_name) == {"http.bank", "c", "g", "h", "i"}


def test_open_breakers_are_forgotten_last(breakers: Breakers) -> None:
    _open(breakers, "down")
    for name in ("a", "b", "c"):
        _call(breakers, name)
    assert set(breakers.by_name) == {"http.bank", "down", "b", "c"}
    assert breakers.shut == {"down"}
    _open(breakers, "b")
    _open(breakers, "c")
    _call(breakers, "d")
    assert set(breakers.by_name) == {"http.bank", "b", "c", "d"}, "the database still has 'down'"
    assert breakers.shut == {"b", "c"}


def test_a_breaker_with_an_unwritten_state_is_kept(breakers: Breakers) -> None:
    for name in ("x", "y", "z"):
        _open(breakers, name)
        breakers.by_name[name].unwritten = "open"
    _call(breakers, "a")
    assert set(breakers.by_name) == {"http.bank", "x", "y", "z", "a"}


def test_a_call_may_end_after_its_breaker_is_forgotten(breakers: Breakers) -> None:
    ticket = breakers.begin("slow", HOLDER)
    assert ticket is not None
    for name in ("a", "b", "c"):
        _call(breakers, name)
    assert "slow" not in breakers.by_name
    breakers.end("slow", HOLDER, ticket, failed=True, began=0.0)
    assert breakers.by_name["slow"].failed == 1


def test_a_forgotten_breaker_has_no_metrics(breakers: Breakers, metrics: Metrics) -> None:
    _call(breakers, "a")
    breakers.show()
    assert metrics.registry.get_sample_value("inboxd_breaker_state", {"name": "a"}) == 0
    for name in ("b", "c", "d"):
        _call(breakers, name)
    breakers.show()
    names = {
        sample.labels.get("name")
        for metric in metrics.registry.collect()
        for sample in metric.samples
        if sample.name.startswith("inboxd_breaker_")
    }
    assert "a" not in names
    assert {"b", "c", "d"} <= names
