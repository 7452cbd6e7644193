"""Django: emit and send in `atomic`, read-only models, a read-only admin, errors with names."""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.db import connection, connections, transaction
from django.db.utils import ConnectionHandler
from django.test import Client, override_settings

from inboxd.client import Inbox, NewEvent
from inboxd.errors import UsageError
from inboxd.model.row_columns import columns_of
from tests.support import Database
from tests.support.django_project import django_connection, setup

setup()  # before the imports that need its settings

from django.contrib.auth.models import User  # noqa: E402

from inboxd.contrib import django as inboxd_django  # noqa: E402
from inboxd.contrib.django.models import (  # noqa: E402
    SettledCommand,
    SettledEvent,
    UnsettledCommand,
    UnsettledEvent,
)

inbox = Inbox()


@pytest.fixture(autouse=True)
def django(database: Database) -> Iterator[Any]:
    """Django's default connection, on the test's database."""
    yield django_connection(database.dsn)
    connections["default"].close()


def types(database: Database) -> list[str]:
    """The types of the committed rows."""
    query = "SELECT type FROM inboxd.events UNION ALL SELECT type FROM inboxd.commands"
    return sorted(row[0] for row in anyio.run(database.fetch, query))


def test_rows_written_in_atomic_commit_with_it(database: Database) -> None:
    with transaction.atomic():
        connection.cursor().execute("CREATE TABLE mine (id int)")
        receipt = inboxd_django.emit("order.paid", {"order_id": 7}, tenant="t1")
        inboxd_django.send("shop.mail", {"to": 12}, queue="email")
        inboxd_django.emit_many([NewEvent("a.b"), NewEvent("a.c")])
        assert types(database) == []
    assert types(database) == ["a.b", "a.c", "order.paid", "shop.mail"]
    row = UnsettledEvent.objects.get(event_id=receipt.event_id)
    assert (row.pk, row.payload, row.tenant) == (receipt.id, {"order_id": 7}, "t1")


def test_a_rollback_undoes_rows_also_to_a_savepoint(database: Database) -> None:
    with transaction.atomic():
        inboxd_django.emit("stays")
        with suppress(ZeroDivisionError), transaction.atomic():
            inboxd_django.emit("goes")
            _ = 1 / 0
    assert types(database) == ["stays"]
    with suppress(ZeroDivisionError), transaction.atomic():
        inbox.send(connection, "goes")
        _ = 1 / 0
    assert types(database) == ["stays"]


def test_the_wrapper_and_its_proxies_are_recognized(django: Any, database: Database) -> None:
    for known in (connection, django, connections["default"]):
        inbox.emit(known, "a.b", event_id=uuid4())
    assert types(database) == ["a.b"] * 3


def test_another_database_is_refused_by_name(tmp_path: Path) -> None:
    # A file: Django does not close in-memory databases.
    other = ConnectionHandler(
        {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "db")}}
    )
    for call in (inbox.emit, inbox.send):
        with pytest.raises(UsageError, match="Django's database 'default' is SQLite"):
            call(other["default"], "a.b")
    with pytest.raises(UsageError, match="is SQLite"):
        inbox.result(other["default"], uuid4())
    other.close_all()


def test_a_result_is_waited_for_outside_of_atomic() -> None:
    with transaction.atomic():
        sent = inboxd_django.send("a.b")
        with pytest.raises(UsageError, match="a transaction is open"):
            inboxd_django.result(sent.command_id)
    with pytest.raises(TimeoutError, match="is pending"):
        inboxd_django.result(sent.command_id, timeout="10ms")


@pytest.mark.parametrize(
    "change",
    [
        lambda row: row.save(),
        lambda row: row.delete(),
        lambda row: type(row)(type="x").save(force_insert=True),
        lambda row: type(row).objects.create(type="x"),
        lambda row: type(row).objects.get_or_create(id=0),
        lambda row: type(row).objects.update_or_create(id=0),
        lambda row: type(row).objects.bulk_create([row]),
        lambda row: type(row).objects.bulk_update([row], ["type"]),
        lambda row: type(row).objects.filter(pk=row.pk).update(type="x"),
        lambda row: type(row).objects.all().delete(),
    ],
)
def test_rows_are_read_only(change: Callable[[Any], object], database: Database) -> None:
    inboxd_django.emit("a.b")
    inboxd_django.send("a.b")
    for model in (UnsettledEvent, UnsettledCommand):
        with pytest.raises(UsageError, match="read-only in Django"):
            change(model.objects.get())
    assert types(database) == ["a.b", "a.b"]


def test_models_have_the_described_columns() -> None:
    for kind, model, without in (
        ("event", UnsettledEvent, {"mode", "traceparent"}),
        ("command", UnsettledCommand, {"max_attempts", "traceparent"}),
    ):
        named = {field.name for field in model._meta.get_fields()}
        assert set(columns_of(kind)) - named == without


def test_models_read_all_tables_and_payloads_stored_apart() -> None:
    inboxd_django.emit("a.b", {"text": "x" * 10_000})
    row = UnsettledEvent.objects.get()
    assert row.payload is None
    assert row.content == {"text": "x" * 10_000}
    assert str(row) == f"a.b {row.pk}"
    for model in (UnsettledCommand, SettledEvent, SettledCommand):
        assert list(model.objects.all()) == []
    # Django must find no migration to make: otherwise SystemExit is raised.
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"SHEMA": "x"}, r"INBOXD has no setting 'SHEMA'; did you mean 'SCHEMA'\?"),
        ({"SCHEMA": "Not valid"}, r'INBOXD\["SCHEMA"\]: .* is not a valid schema name'),
    ],
)
def test_a_wrong_setting_is_refused(given: dict[str, str], told: str) -> None:
    with override_settings(INBOXD=given), pytest.raises(ImproperlyConfigured, match=told):
        inboxd_django.emit("a.b")


def test_the_admin_shows_rows_and_changes_none(database: Database) -> None:
    call_command("migrate", verbosity=0)
    inboxd_django.emit_many(NewEvent("a.b", {"n": n}) for n in range(3))
    sent = inboxd_django.send("c.d", {"seen": "here"})
    client = Client()
    client.force_login(User.objects.create_superuser("ada"))
    for model, count in (("event", 3), ("command", 1)):
        page = client.get(f"/admin/inboxd/unsettled{model}/")
        assert page.status_code == 200
        assert page.context["cl"].result_count == count
        assert client.get(f"/admin/inboxd/settled{model}/").status_code == 200
    where = f"/admin/inboxd/unsettledcommand/{sent.id}/"
    assert "seen" in client.get(where + "change/").content.decode()
    assert client.post(where + "change/", {"type": "x"}).status_code == 403
    assert client.post(where + "delete/", {"post": "yes"}).status_code == 403
    assert client.get("/admin/inboxd/unsettledcommand/add/").status_code == 403
    events = "/admin/inboxd/unsettledevent/"
    uuid = UnsettledEvent.objects.first().event_id
    for term, found in (("2", 1), (str(uuid), 1), ("nonsense", 0), (str(uuid4()), 0)):
        assert client.get(events, {"q": term}).context["cl"].result_count == found
    assert types(database) == ["a.b"] * 3 + ["c.d"]


def test_the_documented_grants_are_enough_to_write_and_to_read(database: Database) -> None:
    page = (Path(__file__).parents[2] / "docs/frameworks.md").read_text()
    (grants,) = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    role = f"inboxd_test_{uuid4().hex[:12]}"
    cursor = connection.cursor()
    cursor.execute(f"CREATE ROLE {role}; {grants.replace('my_service', role)}; SET ROLE {role}")
    try:
        inboxd_django.emit("a.b", {"text": "x" * 10_000})
        assert UnsettledEvent.objects.get().content["text"].startswith("xx")
        for model in (UnsettledCommand, SettledEvent, SettledCommand):
            assert not model.objects.exists()
    finally:
        cursor.execute(f"RESET ROLE; DROP OWNED BY {role}; DROP ROLE {role}")
    assert types(database) == ["a.b"]
