"""For tests of a Django project: the schema in the test database, and the rows written.

Promises: a test sees its rows within its own transaction, which `TestCase` rolls back. Known
limits: it needs the daemon's dependencies; no handlers run (`inboxd.testing` runs handlers); rows
of a `TransactionTestCase` remain, so the mixin looks only at new rows.
"""

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from django.db import connections

from inboxd.contrib.django.config import alias, schema
from inboxd.contrib.django.models import UnsettledCommand, UnsettledEvent
from inboxd.settings import Database
from inboxd.store.migrations import migrate


def make_schema() -> None:
    """Make inboxd's schema in the test database, if it is missing; outside any transaction."""
    given = {"dsn": _dsn(connections[alias()].settings_dict), "schema": schema()}
    asyncio.run(migrate(Database.model_validate(given)))


def emitted(type: str | None = None, *, after: int = 0) -> list[UnsettledEvent]:
    """The events that wait, of a type or of all, in the order in which they were written."""
    return _written(UnsettledEvent, type, after)


def sent(type: str | None = None, *, after: int = 0) -> list[UnsettledCommand]:
    """The commands that wait, of a type or of all, in the order in which they were written."""
    return _written(UnsettledCommand, type, after)


class InboxMixin:
    """Methods for a test class of `django.test`: `class Orders(InboxMixin, TestCase)`."""

    @classmethod
    def setUpClass(cls) -> None:
        make_schema()
        super().setUpClass()  # type: ignore[misc]

    def setUp(self) -> None:
        super().setUp()  # type: ignore[misc]
        self._after = {model: _newest(model) for model in (UnsettledEvent, UnsettledCommand)}

    def emitted(self, type: str | None = None) -> list[UnsettledEvent]:
        return emitted(type, after=self._after[UnsettledEvent])

    def sent(self, type: str | None = None) -> list[UnsettledCommand]:
        return sent(type, after=self._after[UnsettledCommand])

    def assert_emitted(self, type: str, **payload: object) -> UnsettledEvent:
        """Assert that exactly one event has this type and these payload members; return it."""
        found: UnsettledEvent = _the_one("event", type, payload, self.emitted())
        return found

    def assert_sent(self, type: str, **payload: object) -> UnsettledCommand:
        """Assert that exactly one command has this type and these payload members; return it."""
        found: UnsettledCommand = _the_one("command", type, payload, self.sent())
        return found


def _written(model: Any, type_: str | None, after: int) -> list[Any]:
    rows = model.objects.filter(id__gt=after).order_by("id")
    return list(rows if type_ is None else rows.filter(type=type_))


def _newest(model: Any) -> int:
    row = model.objects.order_by("-id").values_list("id", flat=True).first()
    return row or 0


def _the_one(noun: str, type_: str, payload: Mapping[str, object], rows: list[Any]) -> Any:
    fits: list[Any] = [row for row in rows if row.type == type_ and _has(row.content, payload)]
    if len(fits) == 1:
        return fits[0]
    # The message shows payloads: they are a test's own data.
    there = "".join(f"\n  {row.type} {row.content}" for row in rows) or " nothing"
    wanted = f"{type_} {dict(payload)}" if payload else type_
    raise AssertionError(f"{len(fits)} {noun}s are {wanted}, not 1; there is:{there}")


def _has(content: object, members: Mapping[str, object]) -> bool:
    return not members or (isinstance(content, dict) and members.items() <= content.items())


def _dsn(given: Mapping[str, Any]) -> str:
    login = quote(given["USER"], safe="")
    if given["PASSWORD"]:
        login = f"{login}:{quote(given['PASSWORD'], safe='')}"
    where = {"host": given["HOST"], "port": given["PORT"]}
    rest = urlencode({name: value for name, value in where.items() if value})
    return f"postgresql://{login and f'{login}@'}/{quote(given['NAME'])}?{rest}".rstrip("?")
