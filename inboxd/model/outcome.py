"""Outcomes: what happens to a row after its handler has returned or raised.

A failure's text can be stored unchanged (no NUL, valid UTF-8, bounded, passwords masked), equal
failures share a fingerprint, and `decide` never raises. Known limit: apart from passwords and the
DETAIL of a database driver, any secret in the text of a handler's exception is shown.
"""

from __future__ import annotations

import hashlib
import random
import re
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from types import FrameType, TracebackType

from inboxd.errors import (
    Defer,
    InboxdError,
    MessageRefused,
    NoHandler,
    PayloadError,
    Reject,
    Retry,
    UsageError,
)
from inboxd.model import duration
from inboxd.model.backoff import Policy, Rng
from inboxd.model.masking import redact

ERROR_LENGTH = 1_000
TRACEBACK_LENGTH = 4_000
TRACEBACK_FRAMES = 20
# Characters of a message that are processed, before it is cut to the stored length.
_MESSAGE_LENGTH = 20_000
# asyncpg quotes the argument; of its reason only parts that quote nothing are kept: types, bounds.
_REASONS = (
    r"expected \w+, got \w+",
    r"expected an? [\w.]+(?: or [\w.]+)? instance, got '\w+'",
    r"'\w+' object cannot be interpreted as an integer",
    r"'\w+' object has no attribute '\w+'",
    r"must be real number, not \w+",
    r"a bytes-like object is required, not '\w+'",
    r"[a-zA-Z, ]+ (?:is required|expected) \(got type (?:<class )?'?[\w.]+'?>?\)",
    r"expected a sequence \(got type '\w+'\)",
    r"[a-z0-9 ]+ out of (?:\w+ )?range",
    r"can't subtract offset-naive and offset-aware datetimes",
)
_ARGUMENT = re.compile(
    r"(invalid input for query argument \$\d+): .*?"
    rf"( \((?:invalid array element(?: at index \d+)?: )?(?:{'|'.join(_REASONS)})\))?$",
    re.DOTALL,
)
TRACEBACK_CHAIN = 5
# Packages that call a handler: their frames come before its own.
_MACHINERY = {"inboxd", "anyio", "asyncio", "concurrent", "contextvars", "threading", "uvloop"}
_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")


@dataclass(frozen=True, slots=True)
class Failure:
    """error: "ExceptionType: message", at most 1,000 characters. kind: the exception's class name.

    traceback: from the handler's own frames on, at most 4,000 characters. fingerprint: equal for
    equal failures. path: the field of the payload that caused it, if there is one.
    """

    error: str
    kind: str
    traceback: str
    fingerprint: str
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The handler ended well; `result` is JSON text."""

    result: str | None = None


@dataclass(frozen=True, slots=True)
class Retrying:
    """The attempt failed; another follows `delay` seconds from now."""

    delay: float
    failure: Failure


@dataclass(frozen=True, slots=True)
class Dead:
    failure: Failure


@dataclass(frozen=True, slots=True)
class Deferred:
    """Run again without spending an attempt: at `until`, or `delay` seconds from now."""

    until: datetime | None = None
    delay: float | None = None


Unsuccessful = Retrying | Dead | Deferred
Outcome = Succeeded | Unsuccessful


@dataclass(frozen=True, slots=True)
class Site:
    """It separates failure groups. package: of the handler; its innermost frame is the place."""

    type: str = ""
    package: str = ""


_NOWHERE = Site()


def decide(
    error: BaseException,
    policy: Policy,
    attempts_made: int,
    age: timedelta,
    rng: Rng = random,
    site: Site = _NOWHERE,
) -> Unsuccessful:
    """SystemExit is a failure, too. Never pass a cancellation: the caller handles it."""
    error = only_error(error)
    attempt = attempts_made + 1
    try:
        match error:
            case Defer():
                return Deferred(error.until, _optional_seconds(error.after))
            case Reject() | PayloadError() | NoHandler() | MessageRefused(for_good=True):
                return Dead(explain(error, site))
            case _ if policy.is_permanent(error) or policy.is_exhausted(attempt, age):
                return Dead(explain(error, site))
            case Retry(after=after) if after is not None:
                wait = _seconds(after)
                if error.at_least:
                    wait = max(wait, policy.delay(attempt, rng))
                return Retrying(wait, explain(error, site))
            case _:
                return Retrying(policy.delay(attempt, rng), explain(error, site))
    # Retry(after="soon") is a mistake of the handler, so an ordinary failure
    except UsageError as wrong:
        wrong.__cause__ = error
        return decide(wrong, policy, attempts_made, age, rng, site)


def failure_of(outcome: Unsuccessful, error: BaseException) -> Failure:
    """The failure of an outcome: formatting a traceback is expensive, so a stored one is reused."""
    return explain(error) if isinstance(outcome, Deferred) else outcome.failure


def explain(error: BaseException, site: Site = _NOWHERE) -> Failure:
    kind = type(error).__qualname__
    message = _message(error)
    text = f"{kind}: {message}" if message else kind
    return Failure(
        error=_storable(text)[:ERROR_LENGTH],
        kind=kind,
        traceback=_storable(_traceback(error, site.package))[-TRACEBACK_LENGTH:],
        fingerprint=_fingerprint(error, kind, site),
        path=_path(error),
    )


def whole_traceback(error: BaseException) -> str:
    """The whole traceback, with the frames of inboxd that called the handler."""
    return _storable(_traceback(error, ""))


def _path(error: BaseException) -> str | None:
    if not isinstance(error, PayloadError) or error.path is None:
        return None
    return redact(_storable(error.path), ERROR_LENGTH)


def only_error(error: BaseException) -> BaseException:
    """The single error in a group: a task group wraps even the error of a single task."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def telling_error(error: BaseException) -> BaseException:
    """The most informative error of a group: one of inboxd's own, or else the first."""
    flat: list[BaseException] = []
    todo: list[BaseException] = [error]
    while todo:
        error = todo.pop()
        if isinstance(error, BaseExceptionGroup):
            todo += error.exceptions
        else:
            flat.append(error)
    return next((error for error in flat if isinstance(error, InboxdError)), flat[0])


def _optional_seconds(after: timedelta | str | float | None) -> float | None:
    return None if after is None else _seconds(after)


def _seconds(after: timedelta | str | float) -> float:
    """Convert a wait to seconds; unlike settings, code may give a number of seconds."""
    if isinstance(after, int | float):
        try:
            after = timedelta(seconds=after)
        except (OverflowError, ValueError) as error:
            raise UsageError(f"{after!r} seconds is not a valid wait.") from error
    return duration.seconds(after)


def _message(error: BaseException) -> str:
    """The text of the error, without passwords, rows and arguments that drivers quote."""
    try:
        message = _ARGUMENT.sub(r"\1\2", _primary(error) or str(error).partition("\nDETAIL:")[0])
    except Exception as broken:  # noqa: BLE001 - a hostile __str__ must not cost the settlement
        return f"<{type(broken).__name__} while making its message>"
    if isinstance(error, BaseExceptionGroup):
        members = (f"{type(one).__qualname__}: {_message(one)}" for one in error.exceptions)
        message = f"{message}: {'; '.join(members)}"
    return redact(message, _MESSAGE_LENGTH)


def _primary(error: BaseException) -> str | None:
    """A driver's primary message, without the parts that libpq translates."""
    primary = getattr(getattr(error, "diag", None), "message_primary", None)
    return primary if isinstance(primary, str) else None


def _storable(text: str) -> str:
    """Remove NULs and lone surrogates, which PostgreSQL's text cannot hold."""
    return text.replace("\0", "").encode("utf-8", "backslashreplace").decode("utf-8")


def _traceback(error: BaseException, package: str) -> str:
    """The last frames of the error and of its causes, the oldest first."""
    parts: list[str] = []
    step: BaseException | None = error
    while step is not None and len(parts) < TRACEBACK_CHAIN:
        first = _first_of_handler(step.__traceback__, package)
        # Frames are redacted, too: they show lines of code, which may hold a URL.
        frames = redact("".join(traceback.format_tb(first, limit=-TRACEBACK_FRAMES)))
        parts.append(f"{frames}{type(step).__qualname__}: {_message(step)}")
        step = step.__cause__ or (None if step.__suppress_context__ else step.__context__)
    return "\n\n".join(reversed(parts))


def _first_of_handler(whole: TracebackType | None, package: str) -> TracebackType | None:
    """The traceback without the calling packages; the whole, if no frame is the package's."""
    if not package or all(_package(step.tb_frame) != package for step in _frames(whole)):
        return whole
    others = (step for step in _frames(whole) if _package(step.tb_frame) not in _MACHINERY)
    return next(others, whole)


def _frames(step: TracebackType | None) -> Iterator[TracebackType]:
    while step is not None:
        yield step
        step = step.tb_next


def _fingerprint(error: BaseException, kind: str, site: Site) -> str:
    """Hash the exception's type and place: a line of code, the payload's field, or the type."""
    if isinstance(error, PayloadError):
        # Numbers of items are ignored: students.3.email and students.7.email are equal.
        place = f"{site.type} {_NUMBER.sub('*', error.path or '')}"
    else:
        place = _place(error, site.package) or site.type
    text = f"{type(error).__module__}.{kind} {place}"
    return hashlib.blake2b(_storable(text).encode(), digest_size=8).hexdigest()


def _place(error: BaseException, package: str) -> str | None:
    """File, function, and a line counted from the function's first: edits above change nothing.

    Frames outside the package have no line, and inboxd's own are ignored: they change with
    upgrades.
    """
    anywhere = home = None
    for step in _frames(error.__traceback__):
        room = _package(step.tb_frame)
        if room != "inboxd":
            code = step.tb_frame.f_code
            file = Path(code.co_filename).name
            anywhere = f"{file}:{code.co_name}"
            if room == package:  # generated code may have no line
                number = step.tb_lineno or -1  # None: no line is known; -1 before Python 3.11.3
                line = (number if number > 0 else code.co_firstlineno) - code.co_firstlineno
                home = f"{file}:{code.co_qualname}:{line}"
    return home or anywhere


def _package(frame: FrameType) -> str:
    name = frame.f_globals.get("__name__")
    return name.partition(".")[0] if isinstance(name, str) else ""
