"""A rate limit for each name, such as an address or a user, in this process.

Promises: with too many names, the least recently seen are forgotten.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from inboxd.admin.budget import Budget

_MOST: Final = 10_000


class Throttle:
    """For each name, at most `burst` at once; `rate` more are allowed each second."""

    def __init__(
        self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._budgets: OrderedDict[str, Budget] = OrderedDict()

    def is_spent(self, names: Sequence[str]) -> bool:
        return any(name in self._budgets and self._budgets[name].is_spent for name in names)

    def spend(self, names: Sequence[str]) -> None:
        """Count a guess for each name, before it is checked: many guesses may come at once."""
        for name in names:
            budget = self._budgets.get(name)
            if budget is None:
                budget = self._budgets[name] = Budget(self._rate, self._burst, self._clock)
            self._budgets.move_to_end(name)
            budget.spend()
        while len(self._budgets) > _MOST:
            self._budgets.popitem(last=False)

    def forgive(self, names: Sequence[str]) -> None:
        for name in names:
            self._budgets.pop(name, None)
