"""Batches and workflows from a producer: the calls of the public functions, page by page.

Owns `NewStep`, the receipt of a batch, and how commands become JSON. Promises: mistakes that can be
known (a cycle, an unknown step, a field that belongs to the whole batch) are refused before
anything is sent; a batch larger than a page is opened, filled and closed, so that memory holds one
page of it. Known limit: without a transaction of the caller's each page commits by itself: a batch
that was left open expires.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeAlias, TypedDict
from uuid import UUID

from inboxd.client.drafts import COMMANDS, NewCommand
from inboxd.client.pages import PAGE_CHARACTERS, PAGE_ROWS, Query, drafted
from inboxd.client.payload import encode
from inboxd.errors import PayloadError, UsageError
from inboxd.model import checks, duration
from inboxd.model.lineage import uuid7
from inboxd.model.naming import CommandPayload, command_of
from inboxd.model.workflow import Condition, Edge, Graph

_OF_THE_WHOLE = ("correlation_id", "causation_id", "traceparent")
_FOLLOWING = {"then": "then_send", "otherwise": "otherwise_send", "finally_": "finally_send"}
_ABOUT = {
    "type": "text",
    "tenant": "text",
    "correlation_id": "text",
    "causation_id": "uuid",
    "traceparent": "text",
}


# A command with its fields, or a payload whose class names its type.
ACommand: TypeAlias = NewCommand | CommandPayload


class BatchFields(TypedDict, total=False):
    """The options of a batch or workflow, besides its members.

    `then` runs when all members have succeeded, `otherwise` when the whole has ended and a member
    failed for good, `finally_` when it has ended: a command, or several. `type` names the kind of
    work, by which lists are filtered. `batch_id` is generated if it is not given.
    """

    then: ACommand | Sequence[ACommand]
    otherwise: ACommand | Sequence[ACommand]
    finally_: ACommand | Sequence[ACommand]
    type: str | None
    tenant: str | None
    correlation_id: str | None
    causation_id: UUID | None
    traceparent: str | None
    batch_id: UUID | None


@dataclass(slots=True)
class NewStep:
    """A command of a workflow, and the steps that it waits for.

    `after` names a step that must have succeeded, or lists several; in a list, `("a", "failed")`
    and `("a", "finished")` name other conditions. Steps may be given in any order.
    """

    name: str
    command: ACommand
    after: str | Sequence[str | tuple[str, str]] = ()


class BatchSent(NamedTuple):
    """The receipt of a batch or workflow."""

    id: int
    batch_id: UUID


def send_batch(
    schema: str, name: str, commands: Iterable[ACommand], fields: BatchFields
) -> Iterator[Query[Any] | None]:
    """Yield one call; for more than a page, an open batch that is filled and closed."""
    batch_id, given = _about(name, fields)
    pages = _pages(commands)
    page, following = next(pages, "[]"), next(pages, None)
    if following is None:
        yield _call(schema, "send_batch", {**given, "commands": ("jsonb", page)}, batch_id)
        return
    yield _call(schema, "open_batch", given, batch_id)
    yield _add(schema, batch_id, page)
    while following is not None:
        yield _add(schema, batch_id, following)
        following = next(pages, None)
    yield close_batch(schema, batch_id)


def open_batch(
    schema: str, name: str, expires: duration.Duration, fields: BatchFields
) -> Iterator[Query[Any]]:
    """Yield the call that opens a batch."""
    batch_id, given = _about(name, fields)
    parsed = duration.parse(expires)
    if parsed <= timedelta(0):
        raise UsageError(f"batch {name!r}: expires must be longer than 0s.")
    given["expires_in"] = ("interval", f"{parsed.total_seconds()} seconds")
    yield _call(schema, "open_batch", given, batch_id)


def add_to_batch(schema: str, batch_id: UUID, commands: Iterable[ACommand]) -> Iterator[Query[int]]:
    """Yield a call for each page; each receipt is the number of commands added."""
    checks.refuse("batch_id", checks.uuid(batch_id))
    for page in _pages(commands):
        yield _add(schema, batch_id, page)


def close_batch(schema: str, batch_id: UUID) -> Query[Any]:
    """The call that closes a batch."""
    checks.refuse("batch_id", checks.uuid(batch_id))
    return _query(schema, "close_batch", {"batch": ("uuid", batch_id)}, "SELECT 1 FROM", [])


def send_workflow(
    schema: str, name: str, steps: Iterable[NewStep], fields: BatchFields
) -> Iterator[Query[BatchSent]]:
    """Yield the call that sends a whole workflow."""
    batch_id, given = _about(name, fields)
    graph, by_name = Graph(), {}
    for position, step in enumerate(steps):
        if not isinstance(step, NewStep):
            raise UsageError(f"step {position} is a {type(step).__name__}: make it a NewStep(...).")
        checks.refuse(f"step {position}: name", checks.name(step.name))
        graph.add(step.name, _edges(step))
        by_name[step.name] = _member(position, step.command)
    written = [_step(each, by_name[each], graph) for each in graph.order()]
    given["steps"] = ("jsonb", f"[{','.join(written)}]")
    yield _call(schema, "send_workflow", given, batch_id)


def _edges(step: NewStep) -> Iterator[Edge]:
    for each in [step.after] if isinstance(step.after, str) else step.after:
        needs, condition = (each, "succeeded") if isinstance(each, str) else each
        if condition not in set(Condition):
            known = ", ".join(Condition)
            raise UsageError(
                f"step {step.name!r}: {condition!r} is not a condition; known: {known}."
            )
        yield Edge(needs, Condition(condition))


def _step(name: str, member: str, graph: Graph) -> str:
    after = [{"step": step, "when": when} for step, when in graph.edges[name].items()]
    about = {"name": name, **({"after": after} if after else {})}
    return f"{json.dumps(about)[:-1]},{member[1:]}"


def _about(name: str, fields: BatchFields) -> tuple[UUID, dict[str, tuple[str, Any]]]:
    """The id, and the parameters that all these functions share: name to type and value."""
    checks.refuse("name", checks.text(name) or (checks.name(name) if name else None))
    given: dict[str, tuple[str, Any]] = {"name": ("text", name)}
    for field, parameter in _FOLLOWING.items():
        following = fields.get(field)
        if following is not None:
            one = isinstance(following, NewCommand) or command_of(type(following)) is not None
            sent: Iterable[object] = [following] if one else following  # type: ignore[assignment] # or several
            members = ",".join(_member(position, each) for position, each in enumerate(sent))
            given[parameter] = ("jsonb", f"[{members}]")
    for field, type_ in _ABOUT.items():
        value = fields.get(field)
        if value is not None:
            check = checks.uuid if type_ == "uuid" else checks.short
            checks.refuse(field, check(value))
            given[field] = (type_, value)
    batch_id = fields.get("batch_id") or uuid7()
    checks.refuse("batch_id", checks.uuid(batch_id))
    return batch_id, given


def _pages(commands: Iterable[ACommand]) -> Iterator[str]:
    page, size = [], 0
    for position, command in enumerate(commands):
        page.append(_member(position, command))
        size += len(page[-1])
        if len(page) == PAGE_ROWS or size >= PAGE_CHARACTERS:
            yield f"[{','.join(page)}]"
            page, size = [], 0
    if page:
        yield f"[{','.join(page)}]"


def _member(position: int, given: object) -> str:
    """A command as the JSON object that the functions take."""
    command = drafted(COMMANDS, position, given)
    fields = {}
    for column in COMMANDS.columns:
        value = getattr(command, column.field)
        problem = None if value is None else column.check(value)
        if problem or (value is None and column.default is not None):
            raise UsageError(f"command {position}: {column.field} {problem or 'must not be None'}.")
        if value == column.default:
            continue
        if column.field in _OF_THE_WHOLE:
            raise UsageError(
                f"command {position}: {column.field} belongs to the whole batch or workflow: give "
                "it there, once."
            )
        fields[column.field] = value
    try:
        payload = encode(command.payload)
    except PayloadError as error:
        message = f"{error.message} (command {position}, type {command.type!r})"
        raise PayloadError(message, error.path) from None
    return f'{json.dumps(fields, default=_text)[:-1]},"payload":{payload}}}'


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _add(schema: str, batch_id: UUID, page: str) -> Query[Any]:
    given = {"batch": ("uuid", batch_id), "commands": ("jsonb", page)}
    return _query(schema, "add_to_batch", given, "SELECT * FROM", lambda rows: [rows[0][0]])


def _call(
    schema: str, function: str, given: dict[str, tuple[str, Any]], batch_id: UUID
) -> Query[Any]:
    given = {**given, "batch_id": ("uuid", batch_id)}
    return _query(
        schema, function, given, "SELECT id FROM", lambda rows: [BatchSent(rows[0][0], batch_id)]
    )


def _query(
    schema: str, function: str, given: dict[str, tuple[str, Any]], verb: str, receipts: Any
) -> Query[Any]:
    def text(placeholder: Any) -> str:
        parameters = ", ".join(
            f"{name} => {placeholder(number)}::{_CASTS.get(type_, type_)}"
            for number, (name, (type_, _)) in enumerate(given.items(), 1)
        )
        # The call of a public function (docs/producers.md); `schema` was checked by Inbox.
        return f"{verb} {schema}.{function}({parameters})"

    read = receipts if callable(receipts) else lambda _rows: receipts
    return Query(text, [value for _, value in given.values()], read)


# Drivers have their own forms of these types; all of them can send text.
_CASTS = {"jsonb": "text::jsonb", "interval": "text::interval"}
