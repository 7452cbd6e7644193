"""Manages endpoints: add, change, disable, rotate secrets, resend deliveries.

Promises: every worker applies a change within seconds; audit entries have neither secret nor URL.
Known limit: an endpoint of the settings is changed only there.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from ipaddress import ip_address
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from inboxd.errors import Conflict, NotFound, UnknownName, UsageError
from inboxd.model import duration
from inboxd.model.checks import refuse
from inboxd.model.endpoints import (
    DELIVER,
    QUEUE,
    made_secret,
    name_problem,
    secret_problem,
    type_problem,
    url_problem,
)
from inboxd.model.lifecycle import Status
from inboxd.model.spelling import did_you_mean
from inboxd.operations.audit import refuse_if_done_since, seen_entry
from inboxd.operations.bulk import Selection
from inboxd.operations.finding import Found, find, search
from inboxd.operations.held_rows import Done, RowId, listed, seen_as
from inboxd.operations.rows import act
from inboxd.outbound.addresses import Allowed
from inboxd.settings import Settings
from inboxd.settings.values import format_rate, parse_rate
from inboxd.store import endpoints as store
from inboxd.store import operations as rows
from inboxd.store import wakeups
from inboxd.store.connections import Row
from inboxd.store.endpoints import EndpointRow, NewEndpoint
from inboxd.store.finding import Filter
from inboxd.store.session import Session

# Larger than any number of rows.
_ALL = 2**62
# For endpoints that the settings declare.
_REMEDIES: Mapping[str, str] = {
    "change": "change it there",
    "remove": "remove it there, from the settings of all workers",
    "rotate": "set the new secret there",
}


async def one_endpoint(session: Session, name: str) -> EndpointRow:
    found = await store.listed(session, name)
    if not found:
        known = [each["name"] for each in await store.listed(session)]
        hint = did_you_mean(name, known) or "; `inboxd endpoints list` has the names."
        raise UnknownName(f"there is no endpoint {name!r}{hint}")
    return found[0]


async def deliveries(
    session: Session,
    name: str,
    *,
    statuses: Collection[str] = (),
    since: datetime | None = None,
    below: int | None = None,
    limit: int = 20,
    everywhere: bool = False,
) -> Found:
    """Newest first. everywhere: make as many requests as needed; else one, which is bounded."""
    wanted = Filter(lane=QUEUE + name, statuses=statuses, since=since)
    ask = partial(search, look=_ALL) if everywhere else find
    return await ask(
        *(session, "commands", wanted), below=below, limit=limit, read=store.found_deliveries
    )


async def add_endpoint(
    session: Session, new: NewEndpoint, *, actor: str, reason: str | None = None
) -> EndpointRow:
    """Raises UsageError for invalid values, Conflict if the name exists."""
    refuse(f"the name {new.name!r:.60}", name_problem(new.name))
    refuse("the secret", secret_problem(new.secret))
    _check(new.url, new.types)
    async with session.transaction():
        if not await store.add(session, new):
            raise Conflict(f"there is an endpoint {new.name!r} already; choose another name")
        # Only the host: the path may be a secret, and readers of the audit must not see URLs.
        host = urlsplit(new.url).hostname
        await rows.record(session, actor, "add", f"endpoint {new.name}", reason, 1, to=host)
        return await one_endpoint(session, new.name)


async def change_endpoint(
    session: Session,
    name: str,
    changes: Mapping[str, Any],
    *,
    actor: str,
    reason: str | None = None,
    seen: datetime | None = None,
) -> EndpointRow:
    """Change url, types, ordered, events, rate, concurrency or disable_after.

    seen: the time of its last change. Raises UsageError, UnknownName, and Conflict for an endpoint
    of the settings, or if it was changed meanwhile.
    """
    if not changes:
        raise UsageError("no change is given: give --url, --type or another option.")
    _check(changes.get("url"), changes.get("types", ()))
    async with session.transaction():
        check_managed(await one_endpoint(session, name), "change")
        if not await store.change(session, name, changes, seen):
            raise changed_meanwhile(name)
        await rows.record(
            session, actor, "change", f"endpoint {name}", reason, 1, to=", ".join(sorted(changes))
        )
        return await one_endpoint(session, name)


async def remove_endpoint(
    session: Session,
    name: str,
    *,
    actor: str,
    reason: str | None = None,
    seen: datetime | None = None,
) -> EndpointRow:
    """Its waiting deliveries stay. seen and errors: as for `change_endpoint`."""
    async with session.transaction():
        row = await one_endpoint(session, name)
        check_managed(row, "remove")
        if not await store.remove(session, name, seen):
            raise changed_meanwhile(name)
        await rows.record(session, actor, "remove", f"endpoint {name}", reason, 1)
        return row


async def enable_endpoint(
    session: Session,
    name: str,
    *,
    actor: str,
    reason: str | None = None,
    seen: datetime | None = None,
) -> EndpointRow:
    """Workers send its waiting deliveries. Raises UnknownName; Conflict if enabled, or changed."""
    async with session.transaction():
        row = await one_endpoint(session, name)
        if row["undeclared_at"] is not None:
            _refuse_settings(row, "no worker declares it any more, so add it there again")
        if not await store.enable(session, name, seen):
            if not (await one_endpoint(session, name))["enabled"]:
                raise changed_meanwhile(name)
            raise Conflict(f"the endpoint {name!r} is enabled already")
        await rows.record(session, actor, "enable", f"endpoint {name}", reason, 1)
        return await one_endpoint(session, name)


async def disable_endpoint(
    session: Session,
    name: str,
    *,
    actor: str,
    reason: str | None = None,
    seen: datetime | None = None,
) -> EndpointRow:
    """It gets no new deliveries. Raises UnknownName; Conflict if it is disabled, or changed."""
    async with session.transaction():
        await one_endpoint(session, name)
        if not await store.disable(session, name, reason or f"disabled by {actor}", seen):
            row = await one_endpoint(session, name)
            if row["enabled"]:
                raise changed_meanwhile(name)
            raise Conflict(f"the endpoint {name!r} is disabled already: {row['disabled_reason']}")
        await rows.record(session, actor, "disable", f"endpoint {name}", reason, 1)
        return await one_endpoint(session, name)


async def rotate_endpoint(
    session: Session,
    name: str,
    secret: str | None,
    keep: timedelta,
    *,
    actor: str,
    reason: str | None = None,
    seen: datetime | None = None,
) -> str:
    """Older secrets sign too, for the time `keep`; a missing one is generated.

    Raises UsageError, and otherwise as `change_endpoint`.
    """
    secret = secret or made_secret()
    refuse("the secret", secret_problem(secret))
    async with session.transaction():
        check_managed(await one_endpoint(session, name), "rotate")
        if not await store.rotate(session, name, secret, keep, seen):
            raise changed_meanwhile(name)
        await rows.record(session, actor, "rotate", f"endpoint {name}", reason, 1)
    return secret


async def send_to_endpoint(
    session: Session,
    name: str,
    type_: str,
    payload: str,
    *,
    actor: str,
    reason: str | None = None,
) -> dict[str, Any]:
    """Its types do not matter. Raises UnknownName, and Conflict if it is disabled."""
    async with session.transaction():
        row = await one_endpoint(session, name)
        sent = await store.send(session, row, type_, payload)
        if sent is None:
            raise Conflict(
                f"the endpoint {name!r} is disabled ({row['disabled_reason']}): enable it first "
                f"with `inboxd endpoints enable {name}`"
            )
        await rows.record(session, actor, "send", f"endpoint {name}", reason, 1, to=type_)
    return sent


class SeenDeliveries(NamedTuple):
    """entry: the newest resend to their endpoint."""

    entry: int
    state: str


async def resendable(
    session: Session, name: str, ids: Sequence[RowId]
) -> tuple[list[dict[str, Any]], SeenDeliveries]:
    """Return id, status and tenant of each. Raises as `resend_deliveries`."""
    await one_endpoint(session, name)
    async with session.transaction():
        found = await _deliveries(session, name, ids)
    shown = [{key: row[key] for key in ("id", "status", "tenant")} for row in found]
    entry = await seen_entry(session, "resend", _of_endpoint(name))
    return shown, SeenDeliveries(entry, seen_as(found))


async def resend_deliveries(
    session: Session,
    name: str,
    ids: Sequence[RowId],
    *,
    actor: str,
    reason: str | None = None,
    seen: SeenDeliveries | None = None,
) -> Done:
    """Replay failed deliveries, send others anew, all or none, with their message ids.

    Raises UnknownName; NotFound for a row that is not a delivery of this endpoint; Conflict for a
    delivery that has not ended or has changed, or if deliveries of this endpoint were resent since.
    """
    await one_endpoint(session, name)
    async with session.transaction():
        if seen is not None:
            await refuse_if_done_since(session, "resend", _of_endpoint(name), seen.entry)
        found = await _deliveries(session, name, ids)
        if seen is not None and seen_as(found) != seen.state:
            raise Conflict(
                f"delivery {listed([row['id'] for row in found])}: another operator or a worker "
                "changed it meanwhile; nothing was changed: look at it again"
            )
        failed = [row["id"] for row in found if row["hot"]]
        again = Done(())
        if failed:
            again = await act(session, "commands", "replay", failed, actor=actor, reason=reason)
        settled = [row["id"] for row in found if not row["hot"]]
        pairs = await store.resend(session, settled, actor, reason)
        if pairs:
            target = f"commands {listed(settled)}{_of_endpoint(name)}"
            await rows.record(session, actor, "resend", target, reason, len(pairs))
            await wakeups.notify(session, "commands")
    return Done(
        (*again.ids, *(row["old_id"] for row in pairs)),
        new_ids=(*again.new_ids, *(row["new_id"] for row in pairs)),
    )


async def _deliveries(session: Session, name: str, ids: Sequence[RowId]) -> list[Row]:
    """Lock deliveries that have ended. Raises NotFound or Conflict."""
    numbers = [each for each in ids if isinstance(each, int)]
    uuids = [each for each in ids if not isinstance(each, int)]
    found = await rows.lock(session, "commands", numbers, uuids)
    found += await rows.settled(session, "commands", numbers, uuids)
    ours = await store.are_of(session, name, [row["id"] for row in found])
    found = [row for row in found if row["id"] in ours]
    known = {key for row in found for key in (row["id"], row["uuid"])}
    if unknown := [each for each in ids if each not in known]:
        raise NotFound(
            f"the endpoint {name!r} has no delivery {listed(unknown)}; nothing was changed: "
            f"`inboxd endpoints deliveries {name}` lists them"
        )
    if waiting := [row["id"] for row in found if row["hot"] and row["status"] != Status.FAILED]:
        raise Conflict(
            f"delivery {listed(waiting)} has not ended; nothing was changed: workers will "
            "deliver it without a resend"
        )
    if gone := [row["id"] for row in found if not row["hot"] and row["status"] == Status.FAILED]:
        raise Conflict(
            f"delivery {listed(gone)} was replayed as another row; nothing was changed: resend the "
            "new row"
        )
    return found


def _of_endpoint(name: str) -> str:
    """Return the end of a resend's target in the audit."""
    return f" of endpoint {name}"


def failed_of(name: str, **more: Any) -> Selection:
    return Selection(type=DELIVER, lane=QUEUE + name, **more)


def read_rate(text: str) -> str:
    """Return the stored form, such as "10/s". Raises UsageError."""
    try:
        return format_rate(parse_rate(text))
    except ValueError as error:
        raise UsageError(str(error)) from None


def read_disable_after(text: str) -> timedelta:
    """Read the time of failing that disables an endpoint, such as "5d". Raises UsageError."""
    if not (found := duration.parse(text)):
        raise UsageError("the time until an endpoint is disabled must be longer than 0s.")
    return found


def url_remarks(settings: Settings, url: str) -> Iterator[str]:
    """Yield the reasons why these settings forbid sending to a URL."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "http" and settings.outbound.webhooks.require_https:
        yield (
            "outbound.webhooks.require_https is set, so workers send nothing to an http URL: use "
            "https"
        )
    with suppress(ValueError):  # a name, whose addresses may change
        ip_address(host)
        if not Allowed(settings.outbound.webhooks.allow).permits(host):
            yield (
                f"{host} is not a public address: workers send nothing to it unless "
                "outbound.webhooks.allow in their settings contains its range"
            )


def _check(url: str | None, types: Sequence[str]) -> None:
    if url is not None:
        refuse("the URL", url_problem(url))
    for each in types:
        refuse(f"the type {each!r:.60}", type_problem(each))


def changed_meanwhile(name: str) -> Conflict:
    return Conflict(
        f"the endpoint {name!r} was changed meanwhile; nothing was changed: look at it again"
    )


def check_managed(row: EndpointRow, action: Literal["change", "remove", "rotate"]) -> None:
    """Raise Conflict if the settings declare the endpoint: only a change there is allowed."""
    if action != "remove" or row["undeclared_at"] is None:
        _refuse_settings(row, _REMEDIES[action])


def _refuse_settings(row: EndpointRow, remedy: str) -> None:
    if row["managed_by"] == "settings":
        raise Conflict(
            f"the settings declare the endpoint {row['name']!r} in [endpoints.{row['name']}]: "
            f"{remedy}"
        )
