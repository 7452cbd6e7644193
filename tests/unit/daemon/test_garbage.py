"""The garbage collector of a process: set once, and not if someone else has set it."""

import gc
from collections.abc import Iterator

import pytest

from inboxd.daemon import garbage
from inboxd.daemon.garbage import look_for_garbage_seldom


@pytest.fixture(autouse=True)
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Python's own settings of the collector, before and after the test."""
    before = gc.get_threshold()
    monkeypatch.setattr(garbage, "_DEFAULT", before)
    yield
    gc.unfreeze()
    gc.enable()
    gc.set_threshold(*before)


def test_objects_of_the_start_are_frozen() -> None:
    look_for_garbage_seldom(5_000)
    assert gc.get_threshold()[0] == 5_000
    assert gc.get_freeze_count() > 1_000


def test_a_foreign_threshold_is_kept() -> None:
    gc.set_threshold(123)
    look_for_garbage_seldom(5_000)
    assert gc.get_threshold()[0] == 123


def test_a_collector_that_is_off_stays_off() -> None:
    before = gc.get_threshold()
    gc.disable()
    look_for_garbage_seldom(5_000)
    assert not gc.isenabled()
    assert gc.get_threshold() == before


def test_the_lower_threshold_of_a_worker_and_a_receiver_counts() -> None:
    look_for_garbage_seldom(garbage.OF_REQUESTS)
    look_for_garbage_seldom(garbage.OF_HANDLERS)
    assert gc.get_threshold()[0] == garbage.OF_HANDLERS
    look_for_garbage_seldom(garbage.OF_REQUESTS)
    assert gc.get_threshold()[0] == garbage.OF_HANDLERS
