"""Excuses a row's first lost connections, locks and prepared statements, and no later ones.

Owns the memory of such losses. An outage, or an operator's lock, is not the row's failure (promise
7), but a handler that ends its own connection must not run forever. Known limit: the memory belongs
to this process, and is bounded; each worker that runs a row excuses it anew.
"""

from collections import OrderedDict

_EXCUSED = 2
_REMEMBERED = 10_000


class LossExemptions:
    """How often each row's connection was lost while it ran here."""

    def __init__(self) -> None:
        self._counts: OrderedDict[int, int] = OrderedDict()

    def excuse(self, row_id: int) -> bool:
        """Count a loss; returns whether it still counts as an outage."""
        # Remembered beyond that: a row that was blamed once is not excused again.
        count = self._counts[row_id] = self._counts.pop(row_id, 0) + 1
        if len(self._counts) > _REMEMBERED:
            self._counts.popitem(last=False)
        return count <= _EXCUSED
