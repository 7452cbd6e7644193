"""Excuses the first losses of a row: of connections, locks and prepared statements.

An outage or an operator's lock is not the row's failure (promise 7), but losses from number
`worker.crash_limit` on count as failures; the first loss never does. Known limit: the counts are in
this process's memory, and bounded; each worker that runs a row counts from 0.
"""

from collections import OrderedDict

_REMEMBERED = 10_000


class LossExemptions:
    """How often a row's connection was lost while it ran here. limit: the first that counts."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._counts: OrderedDict[int, int] = OrderedDict()

    def excuse(self, row_id: int) -> bool:
        """Count a loss; returns whether it is excused as an outage."""
        # The count is kept after the limit: a row that was blamed once is not excused again.
        count = self._counts[row_id] = self._counts.pop(row_id, 0) + 1
        if len(self._counts) > _REMEMBERED:
            self._counts.popitem(last=False)
        return count < max(2, self._limit)
