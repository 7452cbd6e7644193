"""A file of JSON lines, read page by page: which lines are good, and what is wrong with the others.

Owns the reading and the judgement of a line. Promises: memory holds one page (1,000 lines, or about
8 MB) and one line, of at most 16 MiB; the good lines go on as they are, so no digit of a number is
lost; a mistake names the line's key and never its value. Known limit: the database knows more, such
as how deep its JSON may be; what it refuses is found there (`inboxd.store.imports`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, BinaryIO
from uuid import UUID

import orjson

from inboxd.client.drafts import EVENTS, Kind
from inboxd.model import checks
from inboxd.model.spelling import did_you_mean
from inboxd.operations import Named

# Bytes of a line and of a page, at most.
LONGEST = 16 << 20
_PAGE_BYTES = 8 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_TOO_LONG = f"it has more than {LONGEST >> 20} MiB, the most that a line may have"

Judge = Callable[[bytes], str | None]
# What there is to say of a name of a kind (type, topic, queue).
Remark = Callable[[Named, str], str | None]
# Why handlers would not take a payload: of a type, for a topic, in a version, as JSON.
Refusal = Callable[[str, str | None, int, str], str | None]


@dataclass(slots=True)
class LinesRead:
    """Some lines of a file. to: the last line; size: their bytes; broken: those with a mistake."""

    to: int
    lines: list[tuple[int, bytes]] = field(default_factory=list)
    broken: list[tuple[int, str]] = field(default_factory=list)
    size: int = 0
    last: bool = False


class LineReader:
    """Reads a file from its beginning; `number` is that of the last line it has read."""

    def __init__(self, file: BinaryIO, judge: Judge) -> None:
        """Read what `judge` finds no mistake in."""
        self.number = 0
        self._file = file
        self._judge = judge

    def skip(self, lines: int) -> int:
        """Pass over the first lines; returns their bytes."""
        size = 0
        while self.number < lines and (length := self._next()[1]):
            size += length
        return size

    def page(self, most: int, *, skip_broken: bool) -> LinesRead:
        """The next lines, at most so many; up to the first broken one unless those are skipped."""
        page = LinesRead(self.number)
        end = self.number + most
        while self.number < end and page.size < _PAGE_BYTES:
            text, length = self._next()
            if not length:
                page.last = True
                break
            page.size += length
            mistake = _TOO_LONG if text is None else text and self._judge(text)
            if mistake:
                page.broken.append((self.number, mistake))
                if not skip_broken:
                    break
            elif text:
                page.lines.append((self.number, text))
            page.to = self.number
        return page

    def _next(self) -> tuple[bytes | None, int]:
        """The next line, None if it is too long, and its bytes, 0 at the end of the file."""
        text = self._file.readline(LONGEST + 1)
        length = len(text)
        if not text:
            return b"", 0
        self.number += 1
        if self.number == 1:
            text = text.removeprefix(_BYTE_ORDER_MARK)
        if length <= LONGEST:
            return text.strip(), length
        while text and not text.endswith(b"\n"):
            text = self._file.readline(LONGEST)
            length += len(text)
        return None, length


class LineJudge:
    """Finds what is wrong with a line of events, or of commands."""

    def __init__(
        self, kind: "Kind[Any]", remark: Remark | None, refusal: Refusal | None = None
    ) -> None:
        """`remark` has what there is to say of a name; None: any name is good.

        refusal: the same of payloads.
        """
        self._refusal = refusal
        checked = {each.field: _FORMS.get(each.type, _same)(each.check) for each in kind.columns}
        self._checks: dict[str, Check] = {**checked, "type": checks.name, "payload": _anything}
        if kind is EVENTS:
            self._checks["headers"] = _headers
        lane = "topic" if kind is EVENTS else "queue"
        self._names: tuple[tuple[str, Any], ...] = (("type", f"{kind.noun} type"), (lane, lane))
        self._remark = remark

    def __call__(self, text: bytes) -> str | None:
        """The mistake of a line; None: it is good."""
        try:
            row = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            return f"it is not valid JSON: {error}"
        if not isinstance(row, dict):
            return "it is not a JSON object"
        for key, value in row.items():
            check = self._checks.get(key)
            if check is None:
                return f"unknown key {key!r}{did_you_mean(key, self._checks)}"
            if value is not None and (problem := check(value)):
                return f"{key} {problem}"
        if row.get("type") is None:
            return "it has no type"
        told = self._remark and self._undeclared(row, self._remark)
        return told or (self._refusal and self._refused(row, self._refusal))

    def _undeclared(self, row: dict[str, Any], remark: Remark) -> str | None:
        for key, kind in self._names:
            name = row.get(key)
            if name is not None and (told := remark(kind, name)):
                return told
        return None

    def _refused(self, row: dict[str, Any], refusal: Refusal) -> str | None:
        payload = row.get("payload")
        text = orjson.dumps({} if payload is None else payload).decode()
        version = row.get("schema_version") or 1
        return refusal(row["type"], row.get("topic"), version, text)


Check = Callable[[Any], str | None]


def _same(check: Check) -> Check:
    return check


def _anything(_value: object) -> None:
    """A payload: whatever JSON it is."""


def _headers(value: object) -> str | None:
    return checks.headers(orjson.dumps(value).decode())


def _uuid(_check: Check) -> Check:
    def check(value: object) -> str | None:
        try:
            UUID(str(value))
        except ValueError:
            return "is not a uuid"
        return None

    return check


def _time(check: Check) -> Check:
    def check_text(value: object) -> str | None:
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            return "is not a time in ISO 8601, such as 2026-01-31T08:00:00Z"
        if moment.utcoffset() is None:
            return "has no time zone: end it with Z or an offset such as +01:00"
        return check(moment)

    return check_text


# How a column's check reads what JSON has only as text.
_FORMS: dict[str, Callable[[Check], Check]] = {"uuid": _uuid, "timestamptz": _time}
