"""Logs: one stream of JSON or console lines, with ids, without payloads and secrets.

Promises that values under payload-like and secret keys never appear, that passwords in URLs are
masked, that an object of unknown class is shown as the name of its class, that no value breaks a
line, and that no text moves a terminal's cursor or colours it. Known limit: apart from masked
passwords, the text of a foreign exception is shown unchanged.
"""

import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import islice
from pathlib import PurePath
from types import TracebackType
from typing import Literal, TextIO
from uuid import UUID

import orjson
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from inboxd.model.masking import redact
from inboxd.telemetry.log_writer import PATIENCE, LogWriter

Level = Literal["debug", "info", "warning", "error"]
Style = Literal["auto", "json", "console"]

REMOVED = "[removed]"
# The logger of single rows (`inboxd.engine.row_log`), which is off by default.
ROWS = "inboxd.rows"
_SECRET_KEYS = frozenset(
    {"payload", "body", "password", "dsn", "secret", "token", "authorization", "cookie"}
)
_MAX_TEXT = 10_000
# Characters that may be unprintable, without line breaks and tabs.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\U0010ffff]+")
_MAX_ITEMS = 100
_MAX_DEPTH = 4
_MAX_INTEGER = 2**63
# Keys that the console's renderer appends below a line: their values must be text.
_BELOW = ("stack", "exception")
# Libraries that repeat at "info" what inboxd's own lines report; `configure` never lowers this.
_QUIET = ("uvicorn", "asyncio", "aiosmtpd", "mail.log")

# Called for each dropped line, in a process that has metrics.
_counts: list[Callable[[], None]] = []

_ids: ContextVar[Mapping[str, object]] = ContextVar("inboxd_log_ids")


class bound:  # noqa: N801 - used as a verb: `with bound(event_id=…):`
    """Adds ids to every line logged within; nests; cheap enough for every row (no formatting)."""

    __slots__ = ("_ids", "_token")

    def __init__(self, **ids: object) -> None:
        self._ids = ids

    def __enter__(self) -> None:
        outer = _ids.get(None)
        self._token: Token[Mapping[str, object]] = _ids.set(
            {**outer, **self._ids} if outer else self._ids
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _ids.reset(self._token)


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """Return the logger of a module; it follows later calls of `configure` and `set_level`."""
    return structlog.stdlib.get_logger(name)


def configure(
    level: Level,
    style: Style = "auto",
    *,
    rows: bool = False,
    worker: str = "",
    process: int | None = None,
    stream: TextIO | None = None,
) -> None:
    """To standard error by default. `worker` and `process` (under a supervisor) mark all lines."""
    stream = stream or sys.stderr
    as_console = style == "console" or (style == "auto" and stream.isatty())
    render = _renderer(stream) if as_console else _to_json
    handler = _handler_of(stream)
    _format(handler, render, _shared_steps(worker, process))
    logging.captureWarnings(capture=True)
    logging.basicConfig(handlers=[handler], force=True)
    set_level(level, rows=rows)


def _handler_of(stream: TextIO) -> logging.Handler:
    try:
        descriptor = stream.fileno()
    except (AttributeError, OSError):  # closed from the start, or in memory: writes do not wait
        return logging.StreamHandler(stream)
    return LogWriter(descriptor, stream.encoding, on_drop=_count_drop)


def _writer() -> LogWriter | None:
    handlers = logging.getLogger().handlers
    return next((each for each in handlers if isinstance(each, LogWriter)), None)


def put(text: str) -> bool:
    """Write a text that is not a record after all logged lines; False if there is no log writer."""
    if writer := _writer():
        writer.put(text)
    return writer is not None


def flush(within: float = PATIENCE) -> bool:
    writer = _writer()
    return writer is None or writer.wait(within)


def count_drops(count: Callable[[], None]) -> None:
    _counts[:] = [count]


def _count_drop() -> None:
    for count in _counts:
        count()


@contextmanager
def collected(level: Level) -> Iterator[list[EventDict]]:
    """Collect all lines of the block, cleaned as usual, and write none."""
    root = logging.getLogger()
    before, was = [*root.handlers], root.level
    usual = structlog.get_config() if structlog.is_configured() else None
    lines: list[EventDict] = []

    def keep(_: WrappedLogger, __: str, line: EventDict) -> str:
        lines.append(line)
        return ""

    handler = _Formatting()
    _format(handler, keep, _shared_steps(""))
    root.handlers[:] = [handler]
    logging.captureWarnings(capture=True)
    set_level(level)
    try:
        yield lines
    finally:
        logging.captureWarnings(capture=False)
        if usual is None:
            structlog.reset_defaults()
        else:
            structlog.configure(**usual)
        root.handlers[:] = before
        root.setLevel(was)


class _Formatting(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        """Only format: the last step keeps the line."""
        self.format(record)


def _format(handler: logging.Handler, render: Processor, shared: list[Processor]) -> None:
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.PositionalArgumentsFormatter(),
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.EventRenamer("message"),
                render,
            ],
        )
    )


def follow() -> None:
    """For tests: log to the standard library's logging, unless structlog is configured."""
    if not structlog.is_configured():
        structlog.configure(
            processors=[
                structlog.stdlib.filter_by_level,
                structlog.stdlib.PositionalArgumentsFormatter(),
                *_shared_steps(""),
                structlog.processors.EventRenamer("message"),
                structlog.processors.KeyValueRenderer(key_order=["message"], drop_missing=True),
            ],
            logger_factory=structlog.stdlib.LoggerFactory(),
            wrapper_class=structlog.stdlib.BoundLogger,
        )


def join() -> None:
    """Pass clean lines to the embedding program's logging; its structlog configuration stays."""
    if structlog.is_configured():
        return
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.PositionalArgumentsFormatter(),
            _add_ids,
            structlog.processors.format_exc_info,
            _clean,
            structlog.processors.KeyValueRenderer(key_order=["event"]),
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )


def set_level(level: Level, *, rows: bool = False) -> None:
    """At once (SIGHUP). rows: log each settled row at "info"; at "debug" it is always logged."""
    logging.getLogger().setLevel(level.upper())
    told = rows or level == "debug"
    logging.getLogger(ROWS).setLevel(logging.NOTSET if told else logging.WARNING)
    for name in _QUIET:
        logging.getLogger(name).setLevel("DEBUG" if level == "debug" else "WARNING")


def _shared_steps(worker: str, process: int | None = None) -> list[Processor]:
    def add_worker(_: WrappedLogger, __: str, line: EventDict) -> EventDict:
        if worker:
            line.setdefault("worker", worker)
        if process is not None:
            line.setdefault("process", process)
        return line

    return [
        _add_ids,
        add_worker,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _clean,
    ]


def _add_ids(_: WrappedLogger, __: str, line: EventDict) -> EventDict:
    for key, value in _ids.get({}).items():
        line.setdefault(key, value)
    return line


def _clean(_: WrappedLogger, __: str, line: EventDict) -> EventDict:
    # structlog's own keys hold the record and the logger; its formatter removes them.
    cleaned = {
        key: value if key.startswith("_") else _clean_value(key, value, _MAX_DEPTH)
        for key, value in line.items()
    }
    for key in _BELOW:
        if cleaned.get(key) is not None and not isinstance(cleaned[key], str):
            cleaned[key] = str(cleaned[key])
    return cleaned


def _clean_value(key: str, value: object, depth: int) -> object:
    cleaned: object = f"<{type(value).__name__}>"
    match value:
        case _ if key.lower() in _SECRET_KEYS:
            cleaned = REMOVED
        case None | bool() | float() | datetime() | date():
            cleaned = value
        case int() if abs(value) < _MAX_INTEGER:
            cleaned = value
        case UUID() | str() | BaseException() | timedelta() | PurePath() | Decimal():
            cleaned = _clean_text(str(value))
        case Mapping() if depth:
            items = ((_clean_text(str(k)), v) for k, v in islice(value.items(), _MAX_ITEMS))
            cleaned = {k: _clean_value(k, v, depth - 1) for k, v in items}
        case list() | tuple() | set() | frozenset() if depth:
            cleaned = [_clean_value("", v, depth - 1) for v in islice(value, _MAX_ITEMS)]
    return cleaned


def _clean_text(text: str) -> str:
    # A lone surrogate (an undecodable byte of a file name) cannot be written.
    whole = redact(text, _MAX_TEXT).encode("utf-8", "replace").decode()
    return whole if whole.isprintable() else _UNPRINTABLE.sub(_escaped, whole)


def _escaped(found: re.Match[str]) -> str:
    """Escape control characters as Python does; a traceback keeps its lines."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in found[0])


def _to_json(_: WrappedLogger, __: str, line: EventDict) -> str:
    return orjson.dumps(line, option=orjson.OPT_UTC_Z).decode()


def _renderer(stream: TextIO) -> Processor:
    # Not rich's tracebacks: they show local variables, which hold payloads. No padding: the lines
    # are long enough.
    drawn = structlog.dev.ConsoleRenderer(
        0,
        colors=stream.isatty(),
        event_key="message",
        sort_keys=False,  # the subject of the line comes first, then worker and ids
        exception_formatter=structlog.dev.plain_traceback,
    )

    def render(logger: WrappedLogger, name: str, line: EventDict) -> str:
        line["timestamp"] = _for_people(line.get("timestamp"))
        if str(line.get("logger", "")).startswith("inboxd."):
            del line["logger"]  # JSON has the module
        return str(drawn(logger, name, line))

    return render


def _for_people(timestamp: object) -> object:
    """A time to the second in the machine's zone, as on the command line."""
    try:
        moment = datetime.fromisoformat(str(timestamp))
    except ValueError:  # a foreign field of this name
        return timestamp
    return moment.astimezone().isoformat(" ", "seconds").replace("+00:00", "Z")
