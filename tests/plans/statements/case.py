"""The type of a case, and helpers that make cases.

    run("count_keys", 100), run("lock_events", lambda known: known.of("events big"), [])

A case is a call, and stands together with the indexes by which it must find its rows.
"""

import re
from collections.abc import Awaitable, Callable
from datetime import timedelta

from inboxd.store.session import Session
from inboxd.store.statements import Statements
from tests.plans.filling import Known

AGE = timedelta(days=90)


class Asked(Statements):
    """All statements; notes which of them were asked for by name."""

    def __init__(self) -> None:
        super().__init__("inboxd")
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> str:
        """The statement of that name, which counts as asked for."""
        self.asked.add(name)
        return super().__getitem__(name)

    def meeting(self, pattern: re.Pattern[str]) -> set[str]:
        """The names of the statements whose text matches the pattern."""
        return {name for name in self if pattern.search(super(Asked, self).__getitem__(name))}


SQL = Asked()


Case = Callable[[Session, Known], Awaitable[object]]


def run(name: str, *arguments: Callable[[Known], object] | object) -> Case:
    """A case that runs a named statement; arguments made of rows are functions of them."""
    return lambda session, known: session.fetch(
        name, *(each(known) if callable(each) else each for each in arguments)
    )


async def endpoint(session: Session) -> None:
    """Add an endpoint that gets all webhooks."""
    await session.connection.execute(
        "insert into inboxd.endpoints (name, url, types, secrets)"
        """ values ('one', 'https://one.example', '{*}', '[{"secret": "s"}]')"""
    )
