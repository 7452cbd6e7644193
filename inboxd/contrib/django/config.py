"""The settings `INBOXD` of a Django project: unknown ones are refused; and their connection."""

from typing import cast

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from inboxd.client import Inbox, SyncConnection
from inboxd.errors import UsageError
from inboxd.model.spelling import did_you_mean

_DEFAULTS = {"SCHEMA": "inboxd", "DATABASE": "default"}


def inbox() -> Inbox:
    """The client, for its other methods, such as `inbox().send_batch(connection(), …)`."""
    try:
        return Inbox(_setting("SCHEMA"))
    except UsageError as error:
        raise ImproperlyConfigured(f'INBOXD["SCHEMA"]: {error}') from None


def schema() -> str:
    inbox()
    return _setting("SCHEMA")


def alias() -> str:
    return _setting("DATABASE")


def connection() -> SyncConnection:
    """This thread's connection to that database."""
    return cast("SyncConnection", connections[alias()])


def _setting(name: str) -> str:
    given = getattr(settings, "INBOXD", {})
    for key in given:
        if key not in _DEFAULTS:
            raise ImproperlyConfigured(
                f"INBOXD has no setting {key!r}{did_you_mean(key, _DEFAULTS) or '.'}"
            )
    found: str = given.get(name, _DEFAULTS[name])
    return found
