"""Read-only models of events and commands, hot and in history.

Owns what a Django project sees of the tables. Promises: nothing is changed by them, whether by an
instance or by a query set, and `migrate` leaves the tables alone; a query names its columns, so a
column more is no change for it. Known limits: they are in INBOXD's DATABASE, which a router of the
project must not contradict; `payload` is None where the payload is stored apart: `content` has it.
"""

from typing import Any, NoReturn

from django.db import models

from inboxd.contrib.django.config import alias, schema
from inboxd.errors import UsageError
from inboxd.model.lifecycle import Status


def _refuse(*_: object, **__: object) -> NoReturn:
    raise UsageError(
        "inboxd's rows are read-only in Django: write with emit() or send() of "
        "inboxd.contrib.django, and act on rows with the command line (docs/cli.md)."
    )


class ReadOnlyRows(models.QuerySet):
    """A query set that changes nothing."""

    update = delete = create = bulk_create = bulk_update = _refuse
    get_or_create = update_or_create = _update = _raw_delete = _insert = _refuse


class InboxManager(models.Manager):
    """Asks the database that has the schema, and passes on what the rows refuse."""

    def get_queryset(self) -> ReadOnlyRows:
        """The rows of INBOXD's DATABASE."""
        return ReadOnlyRows(self.model, using=alias())


class InboxRow(models.Model):
    """What the rows of all four tables have."""

    id = models.BigIntegerField(primary_key=True)
    type = models.TextField()
    schema_version = models.SmallIntegerField()
    status = models.TextField(choices=[(each.value, each.value) for each in Status])
    payload = models.JSONField(null=True)
    tenant = models.TextField(null=True)
    entity_type = models.TextField(null=True)
    entity_id = models.TextField(null=True)
    ordering_key = models.TextField(null=True)
    correlation_id = models.TextField(null=True)
    causation_id = models.UUIDField(null=True)
    attempts = models.SmallIntegerField()
    errors = models.JSONField(null=True)
    run_at = models.DateTimeField()
    created_at = models.DateTimeField()
    body_id = models.BigIntegerField(null=True)
    body_at = models.DateTimeField(null=True)

    objects = InboxManager()

    class Meta:
        """No table."""

        abstract = True

    save = delete = asave = adelete = _refuse

    def __str__(self) -> str:
        return f"{self.type} {self.pk}"

    @property
    def content(self) -> Any:
        """The payload, wherever it is stored."""
        if self.body_id is None:
            return self.payload
        body = StoredBody.objects.filter(id=self.body_id, created_at=self.body_at).first()
        return None if body is None else body.payload


class EventColumns(InboxRow):
    """What events have besides."""

    event_id = models.UUIDField()
    topic = models.TextField()
    source = models.TextField(null=True)
    dedup_key = models.TextField(null=True)
    headers = models.JSONField(null=True)
    occurred_at = models.DateTimeField()

    class Meta:
        """No table."""

        abstract = True


class CommandColumns(InboxRow):
    """What commands have besides."""

    command_id = models.UUIDField()
    queue = models.TextField()
    priority = models.SmallIntegerField()
    unique_key = models.TextField(null=True)
    deadline = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    result = models.JSONField(null=True)
    progress = models.JSONField(null=True)

    class Meta:
        """No table."""

        abstract = True


class UnsettledEvent(EventColumns):
    """An event that waits, or is a dead letter."""

    class Meta:
        """The hot table."""

        managed = False
        db_table = f'"{schema()}"."events"'


class SettledEvent(EventColumns):
    """An event of history. One that goes to several topics is several rows of one `event_id`."""

    finished_at = models.DateTimeField()

    class Meta:
        """History, a partition a day."""

        managed = False
        db_table = f'"{schema()}"."events_history"'


class UnsettledCommand(CommandColumns):
    """A command that waits or runs, or is a dead letter."""

    class Meta:
        """The hot table."""

        managed = False
        db_table = f'"{schema()}"."commands"'


class SettledCommand(CommandColumns):
    """A command of history."""

    finished_at = models.DateTimeField()

    class Meta:
        """History, a partition a day."""

        managed = False
        db_table = f'"{schema()}"."commands_history"'


class StoredBody(models.Model):
    """A payload that is stored apart."""

    id = models.BigIntegerField(primary_key=True)
    created_at = models.DateTimeField()
    payload = models.JSONField(null=True)

    objects = InboxManager()
    save = delete = asave = adelete = _refuse

    class Meta:
        """A partition a day."""

        managed = False
        db_table = f'"{schema()}"."bodies"'

    def __str__(self) -> str:
        return f"body {self.pk}"
