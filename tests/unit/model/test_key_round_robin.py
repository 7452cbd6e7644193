"""Whose turn it is: each key once, in the order in which they came, an equal share for all."""

from inboxd.model.key_round_robin import KeyRoundRobin, share


def test_a_key_stands_in_the_round_once() -> None:
    turns = KeyRoundRobin()
    turns.add(["a", "b", "a"])
    turns.add(["b", "c"])
    assert len(turns) == 3
    assert turns.take(2) == ["a", "b"]
    turns.add(["a"])
    assert turns.take(9) == ["c", "a"], "who had a turn comes after the others"
    assert turns.take(1) == []


def test_who_was_not_asked_comes_first_again() -> None:
    turns = KeyRoundRobin()
    turns.add(["a", "b", "c", "d"])
    taken = turns.take(3)
    turns.add(["b"])  # has been heard of meanwhile
    turns.put_back(taken[1:])
    assert turns.take(9) == ["c", "d", "b"], "b stands where it was heard of, once"


def test_few_keys_share_the_room_and_many_take_a_run_each() -> None:
    assert share(1000, 2, 10_000) == 500
    assert share(1000, 3, 10_000) == 334
    assert share(1000, 1000, 10_000) == 16
    assert share(1000, 0, 10_000) == 1000
    assert share(1000, 2, 1) == 1, "slow commands are leased one by one"
