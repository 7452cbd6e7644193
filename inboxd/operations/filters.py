"""Reads the filters of a list from texts; refuses invalid ones before the database is used."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from datetime import tzinfo
from typing import TYPE_CHECKING, cast, get_args

from inboxd.errors import UsageError
from inboxd.model.lifecycle import Status
from inboxd.model.moments import read_since
from inboxd.operations.names import Named
from inboxd.store.finding import Filter, When
from inboxd.store.wakeups import HotTable

if TYPE_CHECKING:
    from inboxd.operations.bulk import Selection

# An escaped NUL in JSON text: a backslash that is not escaped itself, and u0000.
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def read_filter(
    texts: Mapping[str, str | None],
    *,
    statuses: Collection[str] = (),
    commands: Collection[str] = (),
    zone: tzinfo | None = None,
) -> Filter:
    """A missing text, or None, does not filter. Raises UsageError.

    since, until: "2h" or ISO 8601. entity: TYPE or TYPE:ID. payload: FIELD=VALUE or JSON. zone: of
    times without a zone; None: that of this machine.
    """
    since, until, payload = (texts.get(name) for name in ("since", "until", "payload"))
    entity_type, entity_id = read_entity(texts.get("entity") or "")
    return Filter(
        type=texts.get("type"),
        tenant=texts.get("tenant"),
        lane=texts.get("lane"),
        error=texts.get("error"),
        since=None if since is None else read_since(since, zone),
        until=None if until is None else read_since(until, zone),
        payload=() if payload is None else containing(payload),
        entity_type=entity_type,
        entity_id=entity_id,
        statuses=tuple(map(_status, statuses)),
        commands=tuple(map(_status, commands)),
        by=read_when(texts.get("by") or "created"),
    )


def read_entity(text: str) -> tuple[str | None, str | None]:
    """None stands for any type or any id."""
    type_, _, id_ = text.partition(":")
    return type_ or None, id_ or None


def containing(text: str) -> tuple[str, ...]:
    """Read «order_id=17», «a.b=x», or an object. Raises UsageError.

    Valid JSON is searched as JSON and as text; a number keeps all its digits.
    """
    if text.lstrip().startswith("{"):
        if trouble := _unfit(text):
            raise UsageError(f"{text!r} is not valid JSON: {trouble}")
        return (text,)
    name, equals, value = text.partition("=")
    if not (equals and name and all(name.split("."))):
        raise UsageError(
            f"{text!r} is not a valid payload filter: give FIELD=VALUE, such as order_id=17 or "
            "customer.id=17, or a JSON object that the payload contains."
        )
    keys = [json.dumps(each, ensure_ascii=False) for each in name.split(".")]
    begin, end = "{" + ":{".join(keys) + ":", "}" * len(keys)
    filters = [begin + json.dumps(value, ensure_ascii=False) + end]
    if trouble := _unfit(filters[0]):
        raise UsageError(f"{text!r} is not a valid payload filter: {trouble}")
    if not _unfit(value):
        filters.append(begin + value.strip() + end)
    return tuple(filters)


def _unfit(text: str) -> str | None:
    """None: it is valid JSON for the database."""
    try:
        meant = json.loads(text, parse_float=str, parse_constant=_refuse)
        json.dumps(meant, ensure_ascii=False).encode()  # raises for a lone surrogate
    except (ValueError, RecursionError) as error:
        return str(error)
    if _NUL.search(text):
        return "a payload cannot contain the character NUL"
    return None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not valid JSON")


def names_of(table: HotTable, wanted: "Filter | Selection") -> Iterator[tuple[Named, str]]:
    given: dict[Named, str | None] = (
        {"event type": wanted.type, "topic": wanted.lane}
        if table == "events"
        else {"command type": wanted.type, "queue": wanted.lane}
    )
    return ((kind, name) for kind, name in given.items() if name is not None)


def read_when(text: str) -> When:
    if text not in get_args(When):
        raise UsageError(f"by must be one of {', '.join(get_args(When))}, not {text!r}")
    return cast("When", text)


def _status(text: str) -> str:
    if text not in tuple(Status):
        raise UsageError(f"{text!r} is not a valid status: {', '.join(Status)}")
    return str(text)
