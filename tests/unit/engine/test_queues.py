"""The settings of queues: each value of an operator wins over the value of the queue's row."""

from inboxd.engine.queues import Queues
from inboxd.settings import Queue


def test_settings_of_the_file_win_over_rows() -> None:
    changes: list[int] = []
    queues = Queues({"a": Queue(concurrency=2), "b": Queue(breaker="x")}, lambda: changes.append(1))
    assert queues.breakers == {"b": "x"}
    queues.add({"a": Queue(concurrency=9, breaker="y"), "c": Queue(breaker="z")})
    assert queues.by_name == {
        "a": Queue(concurrency=2, breaker="y"),
        "b": Queue(breaker="x"),
        "c": Queue(breaker="z"),
    }
    assert queues.breakers == {"a": "y", "b": "x", "c": "z"}
    queues.add({"a": Queue(concurrency=9, breaker="y"), "c": Queue(breaker="z")})
    assert len(changes) == 1, "nothing has changed"
    queues.add({})
    queues.reload({})
    assert (queues.by_name, len(changes)) == ({}, 3)
