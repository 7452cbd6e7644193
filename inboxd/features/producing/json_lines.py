"""A file of JSON lines, read page by page, with the mistakes of its broken lines.

Memory holds one page (1,000 lines, or about 8 MB) and one line, of at most 16 MiB; good lines are
passed on unchanged, so no digit of a number is lost; a mistake never names a value. Known limit:
only the database knows some limits, such as the depth of its JSON.
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

# The largest line and page, in bytes.
LONGEST = 16 << 20
_PAGE_BYTES = 8 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_TOO_LONG = f"it has more than {LONGEST >> 20} MiB, the limit of a line"

Judge = Callable[[bytes], str | None]
# Returns the mistake in a name of a kind (type, topic, queue).
Remark = Callable[[Named, str], str | None]
# Returns why handlers would refuse a payload, of: type, topic, version, JSON.
Refusal = Callable[[str, str | None, int, str], str | None]


@dataclass(slots=True)
class LinesRead:
    """Lines of a file. to: number of the last one; size: bytes; broken: lines with a mistake."""

    to: int
    lines: list[tuple[int, bytes]] = field(default_factory=list)
    broken: list[tuple[int, str]] = field(default_factory=list)
    size: int = 0
    last: bool = False


class LineReader:
    """Reads a file from its beginning; `number` is the number of the last line that was read."""

    def __init__(self, file: BinaryIO, judge: Judge) -> None:
        self.number = 0
        self._file = file
        self._judge = judge

    def skip(self, lines: int) -> int:
        """Skip the first lines; returns their bytes."""
        size = 0
        while self.number < lines and (length := self._next()[1]):
            size += length
        return size

    def page(self, most: int, *, skip_broken: bool) -> LinesRead:
        """Read at most `most` lines, or up to the first broken line unless these are skipped."""
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
        """Return the next line (None if it is too long) and its bytes (0 at the file's end)."""
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
    def __init__(
        self, kind: "Kind[Any]", remark: Remark | None, refusal: Refusal | None = None
    ) -> None:
        """Check names by `remark` and payloads by `refusal`; None: all are valid."""
        self._refusal = refusal
        checked = {each.field: _FORMS.get(each.type, _same)(each.check) for each in kind.columns}
        self._checks: dict[str, Check] = {**checked, "type": checks.name, "payload": _anything}
        if kind is EVENTS:
            self._checks["headers"] = _headers
        lane = "topic" if kind is EVENTS else "queue"
        self._names: tuple[tuple[str, Any], ...] = (("type", f"{kind.noun} type"), (lane, lane))
        self._remark = remark

    def __call__(self, text: bytes) -> str | None:
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
    """Accept any JSON, as a payload."""


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


# Wrappers of column checks for types that JSON holds as text.
_FORMS: dict[str, Callable[[Check], Check]] = {"uuid": _uuid, "timestamptz": _time}
