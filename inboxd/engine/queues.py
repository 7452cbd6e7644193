"""The settings of queues, as this worker has them by now: of `[queues]`, and of rows.

Owns what is laid over what: a setting that an operator wrote wins over that of a row, each by
itself. Promises that whoever rests on them is told of each change. Known limit: what is added is
this worker's alone; all workers read the same rows.
*See:* `inboxd.commands.admission`, which obeys limits; `breakers`, which leaves queues alone.
"""

from collections.abc import Callable, Mapping

from inboxd.settings import Queue


class Queues:
    """Those of one worker."""

    def __init__(self, written: Mapping[str, Queue], on_change: Callable[[], None]) -> None:
        """Begin with what the settings say; `on_change` is called when that is no longer all."""
        self._written = written
        self._added: Mapping[str, Queue] = {}
        self._on_change = on_change
        self.by_name: Mapping[str, Queue] = written

    @property
    def breakers(self) -> dict[str, str]:
        """The breakers that queues need, by queue."""
        found = {name: queue.breaker for name, queue in self.by_name.items()}
        return {name: breaker for name, breaker in found.items() if breaker is not None}

    def reload(self, written: Mapping[str, Queue]) -> None:
        """The settings have changed, or what goes with them."""
        self._written = written
        self._lay()

    def add(self, queues: Mapping[str, Queue]) -> None:
        """Queues that are rows, all of them: in place of those that were added before."""
        if queues != self._added:
            self._added = dict(queues)
            self._lay()

    def _lay(self) -> None:
        merged = dict(self._added)
        for name, queue in self._written.items():
            below = merged.get(name)
            merged[name] = queue if below is None else queue.over(below)
        self.by_name = merged
        self._on_change()
