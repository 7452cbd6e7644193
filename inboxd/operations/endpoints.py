"""What an operator makes of endpoints: added, changed, disabled, given new secrets; resent to.

Promises: every worker obeys within seconds; each action is audited in the transaction that does it,
without a secret or a URL. Known limit: what the settings say of an endpoint is changed there alone.
*See:* `cli/endpoints.py`, before it; `store/endpoints.py`, after it.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from inboxd.errors import Conflict, NotFound, UnknownName, UsageError
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
from inboxd.model.spelling import did_you_mean
from inboxd.operations.bulk import Selection
from inboxd.operations.finding import Found, find, search
from inboxd.operations.held_rows import Done, RowId, listed
from inboxd.operations.rows import act
from inboxd.store import endpoints as store
from inboxd.store import operations as rows
from inboxd.store import wakeups
from inboxd.store.endpoints import EndpointRow, NewEndpoint
from inboxd.store.finding import Filter
from inboxd.store.session import Session

# More rows than there are.
_ALL = 2**62


async def one_endpoint(session: Session, name: str) -> EndpointRow:
    """An endpoint by its name. Raises UnknownName."""
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
    """What was sent to an endpoint, the newest first.

    everywhere: by as many requests as it takes to fill the page, or to look at all commands; else
    as far as one request looks.
    """
    wanted = Filter(lane=QUEUE + name, statuses=statuses, since=since)
    ask = partial(search, look=_ALL) if everywhere else find
    return await ask(
        *(session, "commands", wanted), below=below, limit=limit, read=store.found_deliveries
    )


async def add_endpoint(
    session: Session, new: NewEndpoint, *, actor: str, reason: str | None = None
) -> EndpointRow:
    """Add one. Raises UsageError for what none can be, Conflict if there is one of its name."""
    refuse(f"the name {new.name!r:.60}", name_problem(new.name))
    refuse("the secret", secret_problem(new.secret))
    _check(new.url, new.types)
    async with session.connection.transaction():
        if not await store.add(session, new):
            raise Conflict(f"there is an endpoint {new.name!r} already; take another name")
        # Its host alone: whoever reads the audit may not read URLs, whose paths may be secrets.
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
) -> EndpointRow:
    """Change url, types, ordered, events, rate, concurrency or disable_after.

    Raises UsageError, UnknownName, and Conflict for one of the settings.
    """
    if not changes:
        raise UsageError("nothing is to change: give --url, --types or another option.")
    _check(changes.get("url"), changes.get("types", ()))
    async with session.connection.transaction():
        _refuse_settings(await one_endpoint(session, name), "change it there")
        await store.change(session, name, changes)
        await rows.record(
            session, actor, "change", f"endpoint {name}", reason, 1, to=", ".join(sorted(changes))
        )
        return await one_endpoint(session, name)


async def remove_endpoint(
    session: Session, name: str, *, actor: str, reason: str | None = None
) -> EndpointRow:
    """Remove one; what waits for it stays. Raises UnknownName, Conflict for one of the settings."""
    async with session.connection.transaction():
        row = await one_endpoint(session, name)
        if row["undeclared_at"] is None:
            _refuse_settings(row, "remove it there; no worker may have it any more")
        await store.remove(session, name)
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
    """Enable one: what waits is delivered. seen: when it was changed last, as somebody saw it.

    Raises UnknownName, and Conflict if it is enabled, or was changed meanwhile.
    """
    async with session.connection.transaction():
        row = await one_endpoint(session, name)
        if row["undeclared_at"] is not None:
            _refuse_settings(row, "no worker has it any more: put it back there")
        if not await store.enable(session, name, seen):
            if not (await one_endpoint(session, name))["enabled"]:
                raise _changed_meanwhile(name)
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
    """Disable one: nothing is written for it. seen: when it was changed last, as somebody saw it.

    Raises UnknownName, and Conflict if it is disabled, or was changed meanwhile.
    """
    async with session.connection.transaction():
        await one_endpoint(session, name)
        if not await store.disable(session, name, reason or f"disabled by {actor}", seen):
            row = await one_endpoint(session, name)
            if row["enabled"]:
                raise _changed_meanwhile(name)
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
) -> str:
    """Give one a new secret, made here unless given; which is returned.

    The older ones sign for as long as `keep`. Raises UsageError, UnknownName, and Conflict for one
    of the settings.
    """
    secret = secret or made_secret()
    refuse("the secret", secret_problem(secret))
    async with session.connection.transaction():
        _refuse_settings(await one_endpoint(session, name), "put the new secret there")
        await store.rotate(session, name, secret, keep)
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
    """Send one webhook to one endpoint, whatever its types are; id, command_id, message_id.

    Raises UnknownName, and Conflict if it is disabled.
    """
    async with session.connection.transaction():
        row = await one_endpoint(session, name)
        sent = await store.send(session, row, type_, payload)
        if sent is None:
            raise Conflict(
                f"the endpoint {name!r} is disabled ({row['disabled_reason']}): `inboxd endpoints "
                f"enable {name}` first"
            )
        await rows.record(session, actor, "send", f"endpoint {name}", reason, 1, to=type_)
    return sent


async def resend_deliveries(
    session: Session,
    name: str,
    ids: Sequence[RowId],
    *,
    actor: str,
    reason: str | None = None,
) -> Done:
    """Deliver again: failed ones are replayed, others become new commands with their message ids.

    All or none. Raises UnknownName, NotFound for what is no delivery of this endpoint, and Conflict
    for one that has not ended.
    """
    await one_endpoint(session, name)
    numbers = [each for each in ids if isinstance(each, int)]
    uuids = [each for each in ids if not isinstance(each, int)]
    async with session.connection.transaction():
        found = await rows.lock(session, "commands", numbers, uuids)
        found += await rows.settled(session, "commands", numbers, uuids)
        ours = await store.are_of(session, name, [row["id"] for row in found])
        found = [row for row in found if row["id"] in ours]
        known = {key for row in found for key in (row["id"], row["uuid"])}
        if unknown := [each for each in ids if each not in known]:
            raise NotFound(
                f"the endpoint {name!r} has no delivery {listed(unknown)}; nothing was changed: "
                f"`inboxd endpoints deliveries {name}` has them"
            )
        failed = [row["id"] for row in found if row["hot"] and row["status"] == "failed"]
        if waiting := [row["id"] for row in found if row["hot"] and row["id"] not in failed]:
            raise Conflict(
                f"delivery {listed(waiting)} has not ended; nothing was changed: it is delivered "
                "without your help"
            )
        again = Done(())
        if failed:
            again = await act(session, "commands", "replay", failed, actor=actor, reason=reason)
        settled = [row["id"] for row in found if not row["hot"]]
        pairs = await store.resend(session, settled, actor, reason)
        if len(pairs) < len(settled):
            raise Conflict(
                f"one of the deliveries {listed(settled)} was replayed as another row; nothing was "
                "changed: resend that one"
            )
        if pairs:
            target = f"commands {listed(settled)} of endpoint {name}"
            await rows.record(session, actor, "resend", target, reason, len(pairs))
            await wakeups.notify(session.connection, session.sql, "commands")
    return Done(
        (*again.ids, *(row["old_id"] for row in pairs)),
        new_ids=(*again.new_ids, *(row["new_id"] for row in pairs)),
    )


def failed_of(name: str, **more: Any) -> Selection:
    """The failed deliveries of an endpoint."""
    return Selection(type=DELIVER, lane=QUEUE + name, **more)


def _check(url: str | None, types: Sequence[str]) -> None:
    if url is not None:
        refuse("the URL", url_problem(url))
    for each in types:
        refuse(f"the type {each!r:.60}", type_problem(each))


def _changed_meanwhile(name: str) -> Conflict:
    return Conflict(
        f"the endpoint {name!r} was changed meanwhile; nothing was done: look again how it is"
    )


def _refuse_settings(row: EndpointRow, remedy: str) -> None:
    if row["managed_by"] == "settings":
        raise Conflict(
            f"the endpoint {row['name']!r} comes from [endpoints.{row['name']}] of the settings: "
            f"{remedy}"
        )
