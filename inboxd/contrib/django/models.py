"""Read-only models of events and commands, hot and in history.

Promises: neither instances nor query sets change anything, and `migrate` leaves the tables alone.
Known limits: the models are in INBOXD's DATABASE, which a router must not contradict; `payload` is
empty for a payload that is stored separately: use `content`.
"""

from typing import Any, NoReturn

from django.db import models

from inboxd.contrib.django.config import alias, schema
from inboxd.errors import UsageError
from inboxd.model.lifecycle import Status


def _refuse(*_: object, **__: object) -> NoReturn:
    raise UsageError(
        "inboxd's rows are read-only in Django: write with emit() or send() of "
        "inboxd.contrib.django, and act on rows with the command line (docs/command-line.md)."
    )


class ReadOnlyRows(models.QuerySet):
    update = delete = create = bulk_create = bulk_update = _refuse
    get_or_create = update_or_create = _update = _raw_delete = _insert = _refuse


class InboxManager(models.Manager):
    def get_queryset(self) -> ReadOnlyRows:
        return ReadOnlyRows(self.model, using=alias())


class InboxRow(models.Model):
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
        """Abstract: the subclasses have the tables."""

        abstract = True

    save = delete = asave = adelete = _refuse

    def __str__(self) -> str:
        return f"{self.type} {self.pk}"

    @property
    def content(self) -> Any:
        """The payload, also if it is stored separately."""
        if self.body_id is None:
            return self.payload
        body = StoredBody.objects.filter(id=self.body_id, created_at=self.body_at).first()
        return None if body is None else body.payload


class EventColumns(InboxRow):
    event_id = models.UUIDField()
    topic = models.TextField()
    source = models.TextField(null=True)
    dedup_key = models.TextField(null=True)
    headers = models.JSONField(null=True)
    occurred_at = models.DateTimeField()

    class Meta:
        """Abstract: the subclasses have the tables."""

        abstract = True


class CommandColumns(InboxRow):
    command_id = models.UUIDField()
    queue = models.TextField()
    priority = models.SmallIntegerField()
    unique_key = models.TextField(null=True)
    deadline = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    result = models.JSONField(null=True)
    progress = models.JSONField(null=True)

    class Meta:
        """Abstract: the subclasses have the tables."""

        abstract = True


class UnsettledEvent(EventColumns):
    class Meta:
        """The hot table, which `inboxd migrate` makes."""

        managed = False
        db_table = f'"{schema()}"."events"'


class SettledEvent(EventColumns):
    """An event of history. One that goes to several topics is several rows of one `event_id`."""

    finished_at = models.DateTimeField()

    class Meta:
        """History, with a partition for each day."""

        managed = False
        db_table = f'"{schema()}"."events_history"'


class UnsettledCommand(CommandColumns):
    class Meta:
        """The hot table, which `inboxd migrate` makes."""

        managed = False
        db_table = f'"{schema()}"."commands"'


class SettledCommand(CommandColumns):
    finished_at = models.DateTimeField()

    class Meta:
        """History, with a partition for each day."""

        managed = False
        db_table = f'"{schema()}"."commands_history"'


class StoredBody(models.Model):
    id = models.BigIntegerField(primary_key=True)
    created_at = models.DateTimeField()
    payload = models.JSONField(null=True)

    objects = InboxManager()
    save = delete = asave = adelete = _refuse

    class Meta:
        """A table with a partition for each day."""

        managed = False
        db_table = f'"{schema()}"."bodies"'

    def __str__(self) -> str:
        return f"body {self.pk}"
