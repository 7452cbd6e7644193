"""Drafts become queries: a page of at most 1,000 rows and about 8 MB for each round trip.

Owns paging, the checks of a page and the call of its SQL function. Promises: reads no further ahead
than the page that it makes; rows without an id of their own get ascending ids, in the order given.
A column that no row of the page fills is not sent. A page is checked before it is sent, so an error
names the row by its place among all rows given, counted from 0.
Known limit: the pages before an invalid row have been sent when it is found; a transaction undoes
them.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

from inboxd.client.drafts import DraftField, Kind
from inboxd.client.payload import encode
from inboxd.errors import PayloadError, UsageError
from inboxd.model import checks
from inboxd.model.lineage import uuid7s

R = TypeVar("R")

PAGE_ROWS = 1_000
# Bounds a page's memory, and its share of PostgreSQL's limit of 1 GB for a message.
PAGE_CHARACTERS = 8_000_000
_ROWS_BETWEEN_YIELDS = 100  # encoding them takes about half a millisecond


class Query(NamedTuple, Generic[R]):
    """One call: its text for a driver's placeholders, its arguments, and a reader of its rows."""

    text: Callable[[Callable[[int], str]], str]
    arguments: list[Any]
    receipts: Callable[[Iterable[Any]], list[R]]


class _Page(NamedTuple):
    """Drafts with their JSON; `start` is the number of drafts before them."""

    start: int
    drafts: list[Any]
    payloads: list[str]
    headers: list[str | None]


def queries(kind: Kind[R], schema: str, drafts: Iterable[Any]) -> Iterator[Query[R] | None]:
    """A query for each page, and None after every 100 rows, to let an event loop do other work.

    Raises PayloadError or UsageError at the first invalid draft.
    """
    for page in _pages(kind, drafts):
        yield page and _query(kind, schema, page)


def _pages(kind: Kind[R], drafts: Iterable[Any]) -> Iterator[_Page | None]:
    page, size = _Page(0, [], [], []), 0
    for position, given in zip(count(), drafts):
        draft = drafted(kind, position, given)
        payload, headers = _encode(kind, position, draft)
        page.drafts.append(draft)
        page.payloads.append(payload)
        page.headers.append(headers)
        size += len(payload) + len(headers or "")
        if len(page.drafts) == PAGE_ROWS or size >= PAGE_CHARACTERS:
            yield page
            page, size = _Page(position + 1, [], [], []), 0
        elif len(page.drafts) % _ROWS_BETWEEN_YIELDS == 0:
            yield None
    if page.drafts:
        yield page


def drafted(kind: Kind[R], position: int, given: object) -> Any:
    """A draft, also made of a payload whose class names its type. Raises UsageError."""
    if isinstance(given, kind.draft):
        return given
    if not isinstance(given, type) and kind.named_by(type(given)) is not None:
        return kind.draft(given)
    name, expected = type(given).__name__, kind.draft.__name__
    raise UsageError(
        f"{kind.noun} {position} is a {name}: make it a {expected}(...), or give its class "
        f"inboxd_{kind.noun}."
    )


def _encode(kind: Kind[R], position: int, draft: Any) -> tuple[str, str | None]:
    sent = getattr(draft, "headers", None)
    try:
        payload = encode(draft.payload)
        headers = None if sent is None else encode(sent)
    except PayloadError as error:
        message = f"{error.message} ({kind.noun} {position}, type {draft.type!r})"
        raise PayloadError(message, error.path) from None
    if headers is not None and (problem := checks.headers(headers)):
        raise UsageError(f"{kind.noun} {position}: headers {problem}.")
    return payload, headers


def _query(kind: Kind[R], schema: str, page: _Page) -> Query[R]:
    rows = list(map(attrgetter(*(column.field for column in kind.columns)), page.drafts))
    parameters = [("payloads", "text[]::jsonb[]")]
    arguments: list[Any] = [page.payloads]
    if page.headers.count(None) < len(page.headers):
        parameters.append(("headers", "text[]::jsonb[]"))
        arguments.append(page.headers)
    ids: list[UUID] = []
    for column, values in zip(kind.columns, map(list, zip(*rows, strict=True)), strict=True):
        unused = values.count(column.default) == len(values)
        if not unused:
            _check(kind, column, page.start, values)
        if not ids:  # the first column
            values = ids = _with_ids(values)  # noqa: PLW2901 - the same column, completed
        elif unused:
            continue
        parameters.append((column.parameter, f"{column.type}[]"))
        arguments.append(values)

    def text(placeholder: Callable[[int], str]) -> str:
        given = ", ".join(
            f"{parameter} => {placeholder(number)}::{type_}"
            for number, (parameter, type_) in enumerate(parameters, 1)
        )
        # The call of a public function (docs/producers.md); `schema` was checked by Inbox.
        call = f"{schema}.{kind.function}({given})"
        return f"SELECT {kind.answer} FROM {call} ORDER BY ordinal"  # noqa: S608

    def receipts(answer: Iterable[Any]) -> list[R]:
        return [
            kind.receipt(row[0], _uuid(row[2]) if row[1] else id_, row[1], *row[3:])
            for row, id_ in zip(answer, ids, strict=True)
        ]

    return Query(text, arguments, receipts)


def _uuid(value: Any) -> UUID:
    """Convert a driver's own UUID class, or its text."""
    return UUID(str(value))


def _with_ids(given: list[UUID | None]) -> list[UUID]:
    """Fill in missing ids, in ascending order even if the clock was set back meanwhile."""
    made = uuid7s(given.count(None))
    if len(made) == len(given):
        return list[UUID](made)
    missing = iter(made)
    return [next(missing) if id_ is None else id_ for id_ in given]


def _check(kind: Kind[R], column: DraftField, start: int, values: list[Any]) -> None:
    for position, value in enumerate(values, start):
        problem = None if value is None else column.check(value)
        if problem or (value is None and column.default is not None):
            raise UsageError(
                f"{kind.noun} {position}: {column.field} {problem or 'must not be None'}."
            )
