"""Matching of rows in assertions, and the texts of failed assertions.

Promises: a dict names members that a payload must have, at every level, and the payload may have
more; a model or a dataclass names all members. A failed assertion shows the existing rows, with the
differences if they have the same type.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import orjson

from inboxd.client.payload import encode
from inboxd.errors import UsageError
from inboxd.model.naming import Named
from inboxd.model.spelling import did_you_mean
from inboxd.testing.stored import StoredCommand, StoredEvent

S = TypeVar("S", StoredEvent, StoredCommand)

ANYTHING: Any = object()
_ROWS_SHOWN = 10


class WantedRow:
    """A test's criteria: a type, a payload, columns."""

    def __init__(
        self, noun: str, type_: str, payload: object, columns: Mapping[str, object]
    ) -> None:
        """`noun`: event or command; payload: ANYTHING for any."""
        self.noun = noun
        self.type = type_
        self._partly = isinstance(payload, Mapping)
        self._any = payload is ANYTHING
        self._payload = None if self._any else orjson.loads(encode(payload))
        self._columns = columns

    def __str__(self) -> str:
        parts = [f"{self.noun} {self.type}"]
        if not self._any:
            parts.append(f"with the payload {self._payload!r}")
        parts += [f"{name}={value!r}" for name, value in self._columns.items()]
        return " ".join(parts)

    def differences(self, row: StoredEvent | StoredCommand) -> list[str]:
        """The differences between a row of this type and the criteria."""
        found = []
        for name, value in self._columns.items():
            if (is_ := getattr(row, name)) != value:
                found.append(f"{name} is {is_!r}, not {value!r}")
        if not self._any:
            found += _differences(self._payload, row.payload, "payload", partly=self._partly)
        return found


def checked(row: type[StoredEvent | StoredCommand], columns: Mapping[str, object]) -> None:
    """Raise UsageError for columns that such rows do not have."""
    for name in columns:
        if name not in row.model_fields and name not in {"error", "traceback"}:
            hint = did_you_mean(name, list(row.model_fields)) or "."
            raise UsageError(f"{row.__name__} has no {name!r}{hint}")


def matching(rows: Sequence[S], wanted: WantedRow) -> list[S]:
    """Return the rows that fit the criteria."""
    return [row for row in rows if row.type == wanted.type and not wanted.differences(row)]


def missing(rows: Sequence[S], wanted: WantedRow, there: int, count: int | None) -> str:
    """The text of an assertion that found fewer, or more, rows than it asked for."""
    many = "no" if not there else str(there)
    asked = "" if count is None else f", not {count}"
    lines = [f"There is {many} {wanted}{asked}."]
    same = [row for row in rows if row.type == wanted.type]
    for row in same[:_ROWS_SHOWN]:
        lines.append(f"- {row}")
        lines += [f"    {each}" for each in wanted.differences(row)]
    if len(same) > _ROWS_SHOWN:
        lines.append(f"… and {len(same) - _ROWS_SHOWN} more of this type.")
    others = Counter(row.type for row in rows if row.type != wanted.type)
    if others:
        listed = ", ".join(f"{type_} ({count})" for type_, count in sorted(others.items()))
        lines.append(f"Other {wanted.noun}s: {listed}")
    elif not same:
        lines.append(f"There are no {wanted.noun}s at all.")
    return "\n".join(lines)


def unwanted(rows: Sequence[S], wanted: WantedRow) -> str:
    """The text of an assertion that found rows which should not exist."""
    return "\n".join(
        [f"Not expected: {wanted}. There is:", *(f"- {row}" for row in rows[:_ROWS_SHOWN])]
    )


def type_of(noun: str, given: object, named: Named | None) -> str:
    """The type of a test's criteria: given by name, or by a payload's class."""
    if isinstance(given, str):
        return given
    if named is None:
        raise UsageError(
            f"{type(given).__qualname__} names no type of {noun}s (inboxd_{noun}): give the type "
            "and the payload."
        )
    return named.type


def _differences(wanted: Any, is_: Any, path: str, *, partly: bool) -> Iterator[str]:
    if isinstance(wanted, Mapping) and isinstance(is_, Mapping):
        for name in wanted:
            if name not in is_:
                yield f"{path}.{name} is missing"
            else:
                yield from _differences(wanted[name], is_[name], f"{path}.{name}", partly=partly)
        if not partly:
            yield from (f"{path}.{name} is not expected" for name in is_ if name not in wanted)
    elif wanted != is_:
        yield f"{path} is {is_!r}, not {wanted!r}"
