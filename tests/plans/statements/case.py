"""What a case of a statement is, and helpers that make several.

A case is a call and the indexes by which it is to find its rows.
"""

import re
from collections.abc import Awaitable, Callable
from datetime import timedelta

from inboxd.store.connections import Connection
from inboxd.store.session import Session
from inboxd.store.statements import Statements
from tests.plans.filling import Known

AGE = timedelta(days=90)


class Asked(Statements):
    """The statements, and which of them were asked for by name."""

    def __init__(self) -> None:
        super().__init__("inboxd")
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> str:
        """The statement of that name."""
        self.asked.add(name)
        return super().__getitem__(name)

    def meeting(self, pattern: re.Pattern[str]) -> set[str]:
        """The names of those in whose text there is such a thing."""
        return {name for name in self if pattern.search(super(Asked, self).__getitem__(name))}


SQL = Asked()


Case = Callable[[Connection, Known], Awaitable[object]]


def run(name: str, *arguments: Callable[[Known], object] | object) -> Case:
    """A statement by its name; what depends on the rows is a function of them."""
    return lambda connection, known: connection.fetch(
        SQL[name], *(each(known) if callable(each) else each for each in arguments)
    )


def operator(work: Callable[[Session, Known], Awaitable[object]]) -> Case:
    return lambda connection, known: work(Session(connection, SQL), known)


async def endpoint(connection: Connection) -> None:
    """One that gets all webhooks."""
    await connection.execute(
        "insert into inboxd.endpoints (name, url, types, secrets)"
        """ values ('one', 'https://one.example', '{*}', '[{"secret": "s"}]')"""
    )
