"""Adds, changes, removes, enables and disables endpoints, makes secrets, and resends deliveries.

Promises: a new secret is shown once; no form takes a secret: your own is set on the command line.
An endpoint of the settings can only be enabled and disabled, and its deliveries resent.
"""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, Literal, cast

from starlette.datastructures import QueryParams

from inboxd import operations
from inboxd.admin.screens.actions.contract import (
    NO_FORM,
    ActionTold,
    ActionVisit,
    AskedField,
    Look,
    Question,
    ScreenAction,
    Sentence,
    tell,
)
from inboxd.admin.screens.actions.rows import row_ids
from inboxd.admin.screens.addresses import path_of
from inboxd.admin.screens.formatting import shell
from inboxd.admin.screens.roles import Role
from inboxd.errors import Conflict, UsageError
from inboxd.model import duration
from inboxd.model.endpoints import DELIVER, made_secret
from inboxd.operations import SeenDeliveries
from inboxd.operations.endpoints import (
    changed_meanwhile,
    check_managed,
    read_disable_after,
    read_rate,
    url_remarks,
)
from inboxd.store.endpoints import EndpointRow, NewEndpoint

Switch = Literal["enable", "disable"]
# The state that the form showed: the newest resend, and the state of the deliveries.
_SEEN: Final = re.compile(r"(\d{1,18}) ([0-9a-f]{24})", re.ASCII)
_KEEP: Final = "24h"
_DISABLE_AFTER: Final = "5d"
_NEW_SECRET: Final = tell(
    "Its secret is made here and shown once, on the next page: copy it there."
)


def _title(name: str) -> Sentence:
    return tell("Endpoint {name}", name=name)


async def _one(visit: ActionVisit) -> EndpointRow:
    return await operations.one_endpoint(visit.session, visit.named("name"))


def _unchanged(visit: ActionVisit) -> dict[str, Any]:
    if (seen := visit.seen_at) is None:
        raise UsageError(NO_FORM)
    return {"seen": seen, **visit.by}


def _to_endpoint(
    name: str, told: Sentence, secret: str | None = None, look: Look = "good"
) -> ActionTold:
    return ActionTold(path_of("endpoints", name), told, look, secret)


async def _ask_switch(to: Switch, visit: ActionVisit) -> Question:
    row, enable = await _one(visit), to == "enable"
    if row["enabled"] == enable:
        raise Conflict(f"the endpoint {row['name']!r} is {to}d already")
    return Question(
        title=_title(row["name"]),
        button=tell("Enable") if enable else tell("Disable"),
        does=[
            tell("Waiting deliveries are sent, and new ones are written for it again.")
            if enable
            else tell("No more deliveries are written for it. Deliveries that already wait stay.")
        ],
        follows=[]
        if enable
        else [
            tell("Events that happen while it is disabled are not delivered later by themselves.")
        ],
        seen=row["changed_at"].isoformat(),
        command=f"inboxd endpoints {to} {shell(row['name'])}",
    )


async def _do_switch(to: Switch, visit: ActionVisit) -> ActionTold:
    name, given = visit.named("name"), _unchanged(visit)
    if to == "enable":
        await operations.enable_endpoint(visit.session, name, **given)
        return _to_endpoint(name, tell("The endpoint {name} is enabled.", name=name))
    await operations.disable_endpoint(visit.session, name, **given)
    return _to_endpoint(name, tell("The endpoint {name} is disabled.", name=name))


async def _ask_resend(visit: ActionVisit) -> Question:
    row, ids = await _one(visit), row_ids(visit.about)
    found, seen = await operations.resendable(visit.session, row["name"], ids)
    return Question(
        title=_title(row["name"]),
        button=tell("Resend"),
        does=[
            tell("Deliveries that are sent again: {n}.", n=len(found)),
            tell(
                "Failed ones are replayed. Others are sent as new commands with the same message "
                "id, by which the receiver can recognize them."
            ),
        ],
        follows=[]
        if row["enabled"]
        else [tell("The endpoint is disabled: they wait until it is enabled.")],
        rows=[{**each, "type": DELIVER, "error": None} for each in found[:10]],
        seen=f"{seen.entry} {seen.state}",
        command=f"inboxd endpoints resend {shell(row['name'])} {' '.join(map(str, ids))}",
        parts={"table": "commands", "count": len(found)},
    )


async def _do_resend(visit: ActionVisit) -> ActionTold:
    name, seen = visit.named("name"), _SEEN.fullmatch(visit.seen or "")
    if seen is None:
        raise UsageError(NO_FORM)
    done = await operations.resend_deliveries(
        visit.session,
        name,
        row_ids(visit.about),
        seen=SeenDeliveries(int(seen[1]), seen[2]),
        **visit.by,
    )
    return _to_endpoint(name, tell("Sent again: {n} deliveries.", n=len(done)))


async def _ask_add(visit: ActionVisit) -> Question:
    typed = visit.typed
    return Question(
        title=tell("A new endpoint"),
        button=tell("Add"),
        does=[tell("From now on, webhooks of its types are delivered to its URL."), _NEW_SECRET],
        follows=[tell("Every worker takes it over within seconds.")],
        fields=[
            AskedField(name="name", title=tell("Name"), value=typed.get("name", ""), required=True),
            *_fields(typed or {"disable_after": _DISABLE_AFTER}, required=True),
            AskedField(
                name="tenant",
                title=tell("Tenant whose webhooks it gets; empty: those of all tenants"),
                value=typed.get("tenant", ""),
            ),
        ],
        command="inboxd endpoints add NAME https://… --type 'user.*'",
    )


async def _do_add(visit: ActionVisit) -> ActionTold:
    typed = visit.typed
    given = _read(typed)
    if not given["types"]:
        raise UsageError("no type is given: give at least one, such as user.*")
    if given["disable_after"] is None:
        del given["disable_after"]
    new = NewEndpoint(
        name=typed.get("name", "").strip(),
        secret=made_secret(),
        tenant=typed.get("tenant", "").strip() or None,
        **given,
    )
    await operations.add_endpoint(visit.session, new, **visit.by)
    doubt = next(url_remarks(visit.settings, new.url), None)
    told = (
        tell("The endpoint {name} is added. But {doubt}.", name=new.name, doubt=doubt)
        if doubt
        else tell("The endpoint {name} is added.", name=new.name)
    )
    return _to_endpoint(new.name, told, new.secret, "warning" if doubt else "good")


async def _ask_change(visit: ActionVisit) -> Question:
    row = await _one(visit)
    check_managed(row, "change")
    return Question(
        title=_title(row["name"]),
        button=tell("Change"),
        does=[tell("The changes take effect on every worker within seconds.")],
        follows=[
            tell(
                "Waiting deliveries go to the new URL, too. Failures of the old one are forgotten."
            ),
            tell("Its secret stays: ask for a new one on its page."),
        ],
        fields=_fields(visit.typed or _shown(row)),
        seen=row["changed_at"].isoformat(),
        command=f"inboxd endpoints change {shell(row['name'])} --url https://…",
    )


async def _do_change(visit: ActionVisit) -> ActionTold:
    row, given = await _one(visit), _unchanged(visit)
    if row["changed_at"] != given["seen"]:
        raise changed_meanwhile(row["name"])
    before, after = _read(_shown(row)), _read(visit.typed)
    # An empty url, types or disable_after keeps its value; another empty field removes its value.
    changes = {
        name: value
        for name, value in after.items()
        if value != before[name] and (value or name not in ("url", "types", "disable_after"))
    }
    if not changes:
        raise UsageError("nothing would change: each field has its old value")
    await operations.change_endpoint(visit.session, row["name"], changes, **given)
    doubt = next(url_remarks(visit.settings, changes.get("url", "")), None)
    words = {"name": row["name"], "fields": ", ".join(sorted(changes))}
    told = (
        tell("The endpoint {name} is changed: {fields}. But {doubt}.", doubt=doubt, **words)
        if doubt
        else tell("The endpoint {name} is changed: {fields}.", **words)
    )
    return _to_endpoint(row["name"], told)


async def _ask_rotate(visit: ActionVisit) -> Question:
    row = await _one(visit)
    check_managed(row, "rotate")
    return Question(
        title=_title(row["name"]),
        button=tell("Make a new secret"),
        does=[_NEW_SECRET],
        follows=[
            tell(
                "For the time below, deliveries are signed with the old secret as well, so that "
                "the receiver can change over. With 0s the old one signs no more."
            )
        ],
        fields=[
            AskedField(
                name="keep",
                title=tell("How long the old secret signs, too"),
                hint=f"{_KEEP}, 0s",
                value=visit.typed.get("keep", _KEEP),
                required=True,
            )
        ],
        seen=row["changed_at"].isoformat(),
        command=f"inboxd endpoints rotate {shell(row['name'])} --keep {_KEEP}",
    )


async def _do_rotate(visit: ActionVisit) -> ActionTold:
    name, keep = visit.named("name"), duration.parse(visit.typed.get("keep", ""))
    secret = await operations.rotate_endpoint(visit.session, name, None, keep, **_unchanged(visit))
    return _to_endpoint(name, tell("The endpoint {name} has a new secret.", name=name), secret)


async def _ask_remove(visit: ActionVisit) -> Question:
    row = await _one(visit)
    check_managed(row, "remove")
    return Question(
        title=_title(row["name"]),
        button=tell("Remove"),
        does=[tell("No more deliveries are written for it, and its secrets are deleted.")],
        follows=[
            tell("Deliveries that wait for it stay: cancel or dismiss them."),
        ],
        seen=row["changed_at"].isoformat(),
        command=f"inboxd endpoints remove {shell(row['name'])}",
        final=True,
    )


async def _do_remove(visit: ActionVisit) -> ActionTold:
    name = visit.named("name")
    await operations.remove_endpoint(visit.session, name, **_unchanged(visit))
    return ActionTold("/endpoints", tell("The endpoint {name} is removed.", name=name))


def _fields(typed: Mapping[str, str], *, required: bool = False) -> list[AskedField]:
    return [
        AskedField(
            name="url",
            title=tell("URL"),
            hint="https://acme.example/hooks",
            value=typed.get("url", ""),
            required=required,
        ),
        AskedField(
            name="types",
            title=tell("Types that it gets, with spaces between them"),
            hint="user.* order.paid",
            value=typed.get("types", ""),
            required=required,
        ),
        AskedField(
            name="ordered",
            title=tell("Deliveries of one ordering key are sent in order"),
            kind="check",
            value=typed.get("ordered", ""),
        ),
        AskedField(
            name="events",
            title=tell("Emitted events are delivered to it, too"),
            kind="check",
            value=typed.get("events", ""),
        ),
        AskedField(
            name="rate",
            title=tell("Rate, at most; empty: no limit"),
            hint="10/s, 600/m",
            value=typed.get("rate", ""),
        ),
        AskedField(
            name="concurrency",
            title=tell("Deliveries at once, over all workers; empty: no limit"),
            kind="number",
            value=typed.get("concurrency", ""),
        ),
        AskedField(
            name="disable_after",
            title=tell("Time of failing after which it is disabled"),
            hint=_DISABLE_AFTER,
            value=typed.get("disable_after", ""),
        ),
    ]


def _shown(row: EndpointRow) -> dict[str, str]:
    """A URL that the database role may not read is empty."""
    return {
        "url": row["url"] or "",
        "types": " ".join(row["types"]),
        "ordered": "1" if row["ordered"] else "",
        "events": "1" if row["events"] else "",
        "rate": row["rate"] or "",
        "concurrency": "" if row["concurrency"] is None else str(row["concurrency"]),
        "disable_after": duration.write(row["disable_after"]),
    }


def _read(typed: Mapping[str, str]) -> dict[str, Any]:
    text = {name: typed.get(name, "").strip() for name in ("rate", "concurrency", "disable_after")}
    try:
        concurrency = int(text["concurrency"]) if text["concurrency"] else None
    except ValueError:
        raise UsageError("the number of deliveries at once must be a whole number") from None
    if concurrency is not None and concurrency <= 0:
        raise UsageError(
            "the number of deliveries at once must be at least 1; leave it empty for no limit"
        )
    after = text["disable_after"]
    return {
        "url": typed.get("url", "").strip(),
        "types": [each for each in re.split(r"[\s,]+", typed.get("types", "")) if each],
        "ordered": bool(typed.get("ordered")),
        "events": bool(typed.get("events")),
        "rate": read_rate(text["rate"]) if text["rate"] else None,
        "concurrency": concurrency,
        "disable_after": read_disable_after(after) if after else None,
    }


def _page(about: QueryParams) -> str:
    return path_of("endpoints", about.get("name", ""))


def _list(_: QueryParams) -> str:
    return "/endpoints"


ACTIONS: Final = (
    *(
        ScreenAction(
            path=f"/act/endpoint/{to}",
            ask=partial(_ask_switch, to),
            do=partial(_do_switch, to),
            back=_page,
        )
        for to in cast("tuple[Switch, ...]", ("enable", "disable"))
    ),
    ScreenAction(path="/act/endpoint/resend", ask=_ask_resend, do=_do_resend, back=_page),
    ScreenAction(
        path="/act/endpoint/add",
        ask=_ask_add,
        do=_do_add,
        back=_list,
        role=Role.ADMIN,
        reserved="add endpoint",
    ),
    ScreenAction(
        path="/act/endpoint/change",
        ask=_ask_change,
        do=_do_change,
        back=_page,
        role=Role.ADMIN,
        reserved="change endpoint",
    ),
    ScreenAction(
        path="/act/endpoint/rotate",
        ask=_ask_rotate,
        do=_do_rotate,
        back=_page,
        role=Role.ADMIN,
        reserved="rotate endpoint",
    ),
    ScreenAction(
        path="/act/endpoint/remove",
        ask=_ask_remove,
        do=_do_remove,
        back=_page,
        role=Role.ADMIN,
        reserved="remove endpoint",
    ),
)
