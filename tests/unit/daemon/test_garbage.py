"""The collector of a process: set once, and never against who has set it."""

import gc
from collections.abc import Iterator

import pytest

from inboxd.daemon import garbage
from inboxd.daemon.garbage import look_for_garbage_seldom


@pytest.fixture(autouse=True)
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As Python has it, before and after."""
    before = gc.get_threshold()
    monkeypatch.setattr(garbage, "_DEFAULT", before)
    yield
    gc.unfreeze()
    gc.enable()
    gc.set_threshold(*before)


def test_what_is_there_is_not_looked_at_any_more() -> None:
    look_for_garbage_seldom(5_000)
    assert gc.get_threshold()[0] == 5_000
    assert gc.get_freeze_count() > 1_000


def test_who_has_set_the_collector_keeps_what_was_set() -> None:
    gc.set_threshold(123)
    look_for_garbage_seldom(5_000)
    assert gc.get_threshold()[0] == 123


def test_a_collector_that_is_off_stays_off() -> None:
    before = gc.get_threshold()
    gc.disable()
    look_for_garbage_seldom(5_000)
    assert not gc.isenabled()
    assert gc.get_threshold() == before


def test_of_a_worker_and_a_receiver_in_one_process_the_lower_number_counts() -> None:
    look_for_garbage_seldom(garbage.OF_REQUESTS)
    look_for_garbage_seldom(garbage.OF_HANDLERS)
    assert gc.get_threshold()[0] == garbage.OF_HANDLERS
    look_for_garbage_seldom(garbage.OF_REQUESTS)
    assert gc.get_threshold()[0] == garbage.OF_HANDLERS
