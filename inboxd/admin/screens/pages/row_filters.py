"""Which rows a query of an address asks for: of the lists, and of the admin API.

Promises that a filter means what it means at the command line, and that none lets be guessed what
is hidden.
*See:* `operations/filters.py`, which reads them; `admin/redaction.py`.
"""

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

# Beside a lane and what may be given several times.
FILTERS: Final = ("type", "tenant", "since", "until", "by", "error", "entity", "payload")


def lane_of(table: HotTable) -> str:
    """What a lane is called."""
    return "topic" if table == "events" else "queue"


def read_query(table: HotTable, query: QueryParams, **instead: str | None) -> Filter:
    """The filter that is asked for; `instead`: what was decided otherwise. Raises UsageError."""
    named = texts(query, *FILTERS, lane_of(table))
    named["lane"] = named.pop(lane_of(table))
    return operations.read_filter(
        {**named, **instead},
        statuses=given(query, "status"),
        commands=given(query, "commands") if table == "events" else (),
    )


async def refuse_guesses(
    session: Session, settings: Admin, table: HotTable, wanted: Filter
) -> None:
    """Raise RequestRefused for a filter that would let be guessed what is hidden."""
    if not wanted.payload:
        return
    types = None if wanted.type is None else [wanted.type]
    redaction = await redaction_of(session, settings, table.removesuffix("s"), types)
    by_type = wanted.type is not None and redaction.hides_type(wanted.type)
    if by_type or redaction.hides_some(wanted.payload):
        detail = (
            "redact_keys and hidden_types of [admin], or the type's handlers, hide here what this "
            f"filter looks for: use `inboxd {table} list --payload`"
        )
        raise RequestRefused(HTTPStatus.FORBIDDEN, detail)
