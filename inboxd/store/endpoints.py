"""The endpoints table: which URLs get webhooks, and whether their deliveries succeed.

Promises that only a caller that knows the newest version can write the result of deliveries, and
that a trigger notifies all workers of each change that affects deliveries.
*See:* `migrations/functions/write_webhooks.sql`, which turns webhooks into deliveries.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict, cast

import orjson

from inboxd.errors import SettingsError
from inboxd.model.endpoints import QUEUE, DisabledBy, WrittenEndpoint
from inboxd.store.connections import Row
from inboxd.store.finding import hits_given
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable

# The least time between two recorded successes.
_SUCCESS_INTERVAL = timedelta(minutes=1)


class EndpointRow(TypedDict):
    """An endpoint for operators; secrets: the number of secrets that sign now."""

    name: str
    url: str
    types: list[str]
    tenant: str | None
    ordered: bool
    events: bool
    rate: str | None
    concurrency: int | None
    disable_after: timedelta
    managed_by: Literal["rows", "settings"]
    undeclared_at: datetime | None
    enabled: bool
    disabled_at: datetime | None
    disabled_by: DisabledBy | None
    disabled_reason: str | None
    failing_since: datetime | None
    last_success_at: datetime | None
    last_failure_at: datetime | None
    last_failure: str | None
    last_status: int | None
    secrets: int
    secret_created_at: datetime | None
    secret_expires_at: datetime | None
    created_at: datetime
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEndpoint:
    """rate: such as "10/s"; None: no limit. events: emitted events are delivered to it, too."""

    name: str
    url: str
    types: Sequence[str]
    secret: str = field(repr=False)
    tenant: str | None = None
    ordered: bool = False
    events: bool = False
    rate: str | None = None
    concurrency: int | None = None
    disable_after: timedelta = timedelta(days=5)


async def read(session: Session) -> dict[str, WrittenEndpoint]:
    rows = await session.fetch("read_endpoints")
    return {
        row["name"]: WrittenEndpoint(**{**row, "secrets": tuple(row["secrets"])}) for row in rows
    }


async def fail(
    session: Session, name: str, version: int, failure: tuple[int | None, str], ago: float
) -> int | None:
    """ago: seconds since the first failure. Returns the version; None: see `fail_endpoint.sql`."""
    found: int | None = await session.fetchval("fail_endpoint", name, version, *failure, ago)
    return found


async def recover(
    session: Session, name: str, version: int, status: int | None, ago: float
) -> int | None:
    """Returns the version, None if it had changed. status: None if the success is recorded."""
    found: int | None = await session.fetchval("recover_endpoint", name, version, status, ago)
    return found


async def note_success(session: Session, name: str, status: int, ago: float, *, last: bool) -> bool:
    """Writes at most once a minute, unless `last`, and notifies no worker. False: not written."""
    apart = timedelta(0) if last else _SUCCESS_INTERVAL
    found = await session.fetchval("note_success", name, status, ago, apart)
    return found is not None


async def give_up(
    session: Session,
    name: str,
    version: int,
    by: Literal["failures", "gone"],
    reason: str,
    failure: tuple[int | None, str],
) -> int | None:
    """Returns the version, None if it had changed or is disabled.

    reason: without contents, for all roles. failure: status, and error, which may quote an answer.
    """
    found: int | None = await session.fetchval(
        "give_up_endpoint", name, version, by, reason, *failure
    )
    return found


# ------------------------------------------------------------------------------ of the settings


async def declare(session: Session, declared: Sequence[Mapping[str, Any]]) -> None:
    """Raises SettingsError if an operator added one with the same name."""
    if not declared:
        return
    names = [each["name"] for each in declared]
    if taken := await session.fetch("endpoints_of_operators", names):
        name = taken[0]["name"]
        raise SettingsError(
            f"[endpoints.{name}]: an operator has already added an endpoint with this name: choose "
            f"another name, or run `inboxd endpoints remove {name}`"
        )
    given = orjson.dumps(declared, default=_interval).decode()
    await session.execute("declare_endpoints", given)


async def mark_undeclared(session: Session) -> list[str]:
    """Mark endpoints that no living worker's settings have; returns those that were marked now."""
    rows = await session.fetch("mark_endpoints")
    return [row["name"] for row in rows if row["name"] is not None]


async def disable_undeclared(session: Session) -> list[str]:
    """Disable endpoints that have been undeclared for an hour; returns their names."""
    return [row["name"] for row in await session.fetch("disable_undeclared")]


# ------------------------------------------------------------------------------------- operators


async def listed(
    session: Session, name: str | None = None, *, after: str | None = None, rows: int | None = None
) -> list[EndpointRow]:
    return cast("list[EndpointRow]", await session.fetch("list_endpoints", name, after, rows))


async def add(session: Session, new: NewEndpoint) -> bool:
    """Add an endpoint; False: its name is taken."""
    columns = (new.name, new.url, list(new.types), new.secret, new.tenant, new.ordered)
    bounds = (new.rate, new.concurrency, new.disable_after, new.events)
    return await session.fetchval("add_endpoint", *columns, *bounds) is not None


async def change(
    session: Session, name: str, changes: Mapping[str, Any], unchanged: datetime | None = None
) -> bool:
    """False: not found, or `unchanged` is not its change time."""
    given = orjson.dumps(changes, default=_interval).decode()
    return await session.fetchval("change_endpoint", name, given, unchanged) is not None


def _interval(value: object) -> str:
    if isinstance(value, timedelta):
        return f"{value.total_seconds():f} seconds"
    raise TypeError


async def remove(session: Session, name: str, unchanged: datetime | None) -> bool:
    """Remove an endpoint. False: not found, or `unchanged` is not its change time."""
    return await session.fetchval("remove_endpoint", name, unchanged) is not None


async def enable(session: Session, name: str, unchanged: datetime | None) -> bool:
    """Enable it. False: not found, enabled already, or `unchanged` is not its change time."""
    return await session.fetchval("enable_endpoint", name, unchanged) is not None


async def disable(session: Session, name: str, reason: str, unchanged: datetime | None) -> bool:
    """Disable it. False: not found, disabled already, or `unchanged` is not its change time."""
    return await session.fetchval("disable_endpoint", name, reason, unchanged) is not None


async def rotate(
    session: Session, name: str, secret: str, keep: timedelta, unchanged: datetime | None
) -> bool:
    """Older secrets sign for `keep` longer. False: not found, or changed since `unchanged`."""
    found = await session.fetchval("rotate_endpoint", name, secret, keep, unchanged)
    return found is not None


async def found_deliveries(
    session: Session, _: HotTable, hits: Sequence[tuple[int, datetime | None]]
) -> list[dict[str, Any]]:
    rows = [dict(row) for row in await session.fetch("found_deliveries", *hits_given(hits))]
    for row in rows:
        row["answer"] = orjson.loads(row["answer"] or "null")
    return rows


async def send(
    session: Session, to: EndpointRow, type_: str, payload: str
) -> dict[str, Any] | None:
    """Send an endpoint one webhook: id, command_id, message_id; None: it is disabled."""
    row = await session.fetchrow("send_webhook", type_, payload, to["name"], to["tenant"])
    return None if row is None else dict(row)


async def are_of(session: Session, name: str, ids: Sequence[int]) -> set[int]:
    return {row["id"] for row in await session.fetch("are_deliveries", QUEUE + name, list(ids))}


async def resend(session: Session, ids: Sequence[int], actor: str, reason: str | None) -> list[Row]:
    """Deliver settled webhooks again, as new commands; returns old_id, new_id of each."""
    return await session.fetch("resend_deliveries", list(ids), actor, reason)
