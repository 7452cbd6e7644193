"""Reads filters of rows from the query of an address; a time without a zone is UTC.

Promises that hidden values cannot be guessed with filters.
"""

from datetime import UTC
from http import HTTPStatus
from typing import Final

from starlette.datastructures import QueryParams

from inboxd import operations
from inboxd.admin.answers import RequestRefused
from inboxd.admin.redaction import redaction_of
from inboxd.admin.screens.pages.queries import given, texts
from inboxd.settings import Admin
from inboxd.store.finding import Filter
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable

# Filters with one value, besides the lane.
FILTERS: Final = ("type", "tenant", "since", "until", "by", "error", "entity", "payload")


def lane_of(table: HotTable) -> str:
    return "topic" if table == "events" else "queue"


def read_query(table: HotTable, query: QueryParams, **instead: str | None) -> Filter:
    """instead: values that replace those of the query. Raises UsageError."""
    named = texts(query, *FILTERS, lane_of(table))
    named["lane"] = named.pop(lane_of(table))
    return operations.read_filter(
        {**named, **instead},
        statuses=given(query, "status"),
        commands=given(query, "commands") if table == "events" else (),
        zone=UTC,
    )


async def refuse_guesses(
    session: Session, settings: Admin, table: HotTable, wanted: Filter
) -> None:
    """Raise RequestRefused for a filter by which hidden values could be guessed."""
    if not wanted.payload:
        return
    types = None if wanted.type is None else [wanted.type]
    redaction = await redaction_of(session, settings, table.removesuffix("s"), types)
    by_type = wanted.type is not None and redaction.hides_type(wanted.type)
    if by_type or redaction.hides_some(wanted.payload):
        detail = (
            "this filter searches values that redact_keys or hidden_types of [admin], or the "
            f"type's handlers, hide here: use `inboxd {table} list --payload`"
        )
        raise RequestRefused(HTTPStatus.FORBIDDEN, detail)
