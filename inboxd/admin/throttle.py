"""How often somebody may do something: an allowance for each name, such as an address or a user.

Promises that its memory is bounded: of too many, those that were seen longest ago are forgotten.
Known limit: it is of one process.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from inboxd.admin.budget import Budget

_MOST: Final = 10_000


class Throttle:
    """So many at once for each name, such as wrong guesses, and so many a second for long."""

    def __init__(
        self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Nobody has spent anything yet."""
        self._rate, self._burst, self._clock = rate, burst, clock
        self._budgets: OrderedDict[str, Budget] = OrderedDict()

    def is_spent(self, names: Sequence[str]) -> bool:
        """Whether one of these has nothing left just now."""
        return any(name in self._budgets and self._budgets[name].is_spent for name in names)

    def spend(self, names: Sequence[str]) -> None:
        """Count one; a guess, before it is known to be wrong: many may come at once."""
        for name in names:
            budget = self._budgets.get(name)
            if budget is None:
                budget = self._budgets[name] = Budget(self._rate, self._burst, self._clock)
            self._budgets.move_to_end(name)
            budget.spend()
        while len(self._budgets) > _MOST:
            self._budgets.popitem(last=False)

    def forgive(self, names: Sequence[str]) -> None:
        """Forget these: it was no guess."""
        for name in names:
            self._budgets.pop(name, None)
