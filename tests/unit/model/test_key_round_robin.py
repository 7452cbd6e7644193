"""Turns of keys: each key once, in the order of arrival, with an equal share for all."""

from inboxd.model.key_round_robin import KeyRoundRobin, share


def test_key_has_one_place_in_the_order() -> None:
    turns = KeyRoundRobin()
    turns.add(["a", "b", "a"])
    turns.add(["b", "c"])
    assert len(turns) == 3
    assert turns.take(2) == ["a", "b"]
    turns.add(["a"])
    assert turns.take(9) == ["c", "a"], "a key that had its turn comes last"
    assert turns.take(1) == []


def test_key_that_was_put_back_comes_first() -> None:
    turns = KeyRoundRobin()
    turns.add(["a", "b", "c", "d"])
    taken = turns.take(3)
    turns.add(["b"])  # arrives again meanwhile
    turns.put_back(taken[1:])
    assert turns.take(9) == ["c", "d", "b"], "b has one place, that of its new arrival"


def test_few_keys_share_the_room_and_many_take_a_run_each() -> None:
    assert share(1000, 2, 10_000) == 500
    assert share(1000, 3, 10_000) == 334
    assert share(1000, 1000, 10_000) == 16
    assert share(1000, 0, 10_000) == 1000
    assert share(1000, 2, 1) == 1, "slow commands are leased one at a time"
