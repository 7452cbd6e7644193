"""The current settings of queues: each setting in `[queues]` overrides the one of an endpoint.

Known limit: added queues are in this worker's memory; all workers read the same rows.
"""

from collections.abc import Callable, Mapping

from inboxd.settings import Queue


class Queues:
    def __init__(self, written: Mapping[str, Queue], on_change: Callable[[], None]) -> None:
        self._written = written
        self._added: Mapping[str, Queue] = {}
        self._on_change = on_change
        self.by_name: Mapping[str, Queue] = written

    @property
    def breakers(self) -> dict[str, str]:
        found = {name: queue.breaker for name, queue in self.by_name.items()}
        return {name: breaker for name, breaker in found.items() if breaker is not None}

    def reload(self, written: Mapping[str, Queue]) -> None:
        self._written = written
        self._merge()

    def add(self, queues: Mapping[str, Queue]) -> None:
        """Set the queues that are rows, in place of all that were added before."""
        if queues != self._added:
            self._added = dict(queues)
            self._merge()

    def _merge(self) -> None:
        merged = dict(self._added)
        for name, queue in self._written.items():
            below = merged.get(name)
            merged[name] = queue if below is None else queue.over(below)
        self.by_name = merged
        self._on_change()
