"""Forgives a row its first lost connections, locks and prepared statements; blames it after that.

Owns the memory of such losses. An outage, or an operator's lock, is no row's failure (promise 7),
but a handler that ends its own connection must not run for ever. Known limit: the memory is this
process's, and bounded; a row that many workers run in turn is excused by each.
"""

from collections import OrderedDict

_EXCUSED = 2
_REMEMBERED = 10_000


class LossExemptions:
    """How often each row's connection was lost while it ran here."""

    def __init__(self) -> None:
        self._counts: OrderedDict[int, int] = OrderedDict()

    def excuse(self, row_id: int) -> bool:
        """Count a loss; whether it is still taken for an outage."""
        # It is remembered beyond that: a row that was blamed once has no new excuses.
        count = self._counts[row_id] = self._counts.pop(row_id, 0) + 1
        if len(self._counts) > _REMEMBERED:
            self._counts.popitem(last=False)
        return count <= _EXCUSED
