"""The one exception tree, and the signals by which a handler sets its own outcome.

Owns every exception class of inboxd. Promises: `except InboxdError` catches all of them; a class
without a message of its own has the first line of its docstring; a message names the thing, the
cause and the remedy, and never a payload or a secret. All of them survive pickling, because
handlers also run in child processes.
Known limit: drivers' exceptions are wrapped at the boundary that talks to the driver, not here.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Self
from uuid import UUID


class InboxdError(Exception):
    """Something in inboxd went wrong."""

    # Text that the command line appends: the option that would help.
    on_terminal = ""

    def on_terminals(self, told: str) -> Self:
        """Return this error with a text that the command line appends."""
        self.on_terminal = told
        return self

    def __str__(self) -> str:
        return super().__str__() or _default_message(type(self))


class SettingsError(InboxdError):
    """The settings are wrong: correct what the message names and start again."""


class UsageError(InboxdError, ValueError):
    """An argument given to inboxd is wrong."""

    # Also a ValueError, so that a pydantic validator may call the function that raises it.


class PluginError(InboxdError):
    """A plugin cannot be used: correct or uninstall the distribution that provides it."""


class LifespanFailed(InboxdError):
    """A plugin's resource could not be opened: check what its lifespan waits for, then restart."""


class SchemaError(InboxdError):
    """The database schema does not fit this version: run `inboxd migrate`."""


class DatabaseError(InboxdError):
    """The database cannot be used: it is unreachable, or a privilege is missing."""


class DatabaseAway(DatabaseError):
    """The database does not answer: wait until it accepts connections, or correct its address."""


class SpoolFull(InboxdError):
    """The spool is full: repair the database, so that the spool drains, or raise its quota."""


class SpoolBroken(InboxdError):
    """The spool's disk failed: the spool accepts nothing until the receiver is restarted."""


class UnreadableReceipt(InboxdError):
    """A frame of the spool holds no receipt that this version can read."""


class SpoolOwned(InboxdError):
    """Another process owns this folder of the spool."""


class TargetUnreachable(InboxdError):
    """The target did not answer: it is called again later."""


class TargetRefused(InboxdError):
    """The target may not be called: correct its URL or headers, or allow its address."""


class BrokerUnavailable(InboxdError):
    """The broker cannot be reached: messages that it did not confirm are published again."""


class MessageRefused(InboxdError):
    """The broker refused a message."""

    def __init__(
        self, reason: str = "", *, for_good: bool = False, unroutable: bool = False
    ) -> None:
        """`for_good`: the broker would refuse it again, so it becomes a dead letter at once.

        unroutable: the broker has no receiver for the message's destination.
        """
        super().__init__(reason, for_good, unroutable)
        self.reason = reason
        self.for_good = for_good
        self.unroutable = unroutable

    def __str__(self) -> str:
        return self.reason or _default_message(type(self))

    def __reduce__(self) -> tuple[object, ...]:
        return _refused, (self.reason, self.for_good, self.unroutable)


class StreamLost(InboxdError):
    """The broker no longer has the messages after the stored position: choose where to continue."""


class ExportError(InboxdError):
    """A partition could not be exported: it is kept, and the export is tried again."""


class PartitionBusy(InboxdError):
    """A partition is in use: it is dropped later."""


class LeaseLost(InboxdError):
    """This worker lost its lease: its work on the row no longer counts."""


class UniqueKeyTaken(InboxdError):
    """Another unsettled command of this type has the same unique key, and was left unchanged."""


class DedupKeyHeld(InboxdError):
    """A dedup key is recorded in a transaction that is open: end it, or wait until it ends."""


class Unreachable(InboxdError):
    """No server answers at this address: start it, or correct the address."""


class NotFound(InboxdError):
    """There is no such row: look the id up with `inboxd events list` or `commands list`."""


class UnknownName(NotFound):
    """Nothing declares this name: correct it, or use --force."""


class UnknownCommand(NotFound):
    """No command has this id: its transaction has not committed, or its history was dropped."""


class CommandFailed(InboxdError):
    """The command failed for good and is a dead letter: an operator may replay it."""

    def __init__(self, command_id: UUID, error: str) -> None:
        """`error` is the error of its last attempt."""
        super().__init__(command_id, error)
        self.command_id = command_id
        self.error = error

    def __str__(self) -> str:
        return f"command {self.command_id} has failed: {self.error or 'no error is kept'}"


class CommandCancelled(InboxdError):
    """The command was cancelled, and has no result.

    reason: begins with `expired` or `skipped`; None: somebody cancelled it.
    """

    def __init__(self, command_id: UUID, reason: str | None = None) -> None:
        super().__init__(command_id, reason)
        self.command_id, self.reason = command_id, reason

    def __str__(self) -> str:
        text = f"command {self.command_id} was cancelled"
        return text if self.reason is None else f"{text} ({self.reason})"


class ResultTimeout(InboxdError, TimeoutError):
    """The command has not ended in time: it continues, and you may wait for it again."""

    def __init__(self, command_id: UUID, status: str, seconds: float) -> None:
        """`status` is the last one seen; empty: none was seen. `seconds` is the time waited."""
        super().__init__(command_id, status, seconds)
        self.command_id = command_id
        self.status = status
        self.seconds = seconds

    def __str__(self) -> str:
        how = f"is {self.status}" if self.status else "has not been seen"
        seconds = f"{round(self.seconds, 1):g}"
        return (
            f"command {self.command_id} {how} after {seconds} s: it continues, and you may wait "
            "for it again"
        )


class Conflict(InboxdError):
    """The row's status does not allow this action."""


class NoHandler(InboxdError):
    """No handler for this type: install a plugin that declares it, then replay the row."""


class NotDurable(InboxdError):
    """The received data is not durable: the sender must send it again."""


class HandlersFailed(InboxdError, AssertionError):
    """Handlers failed in a test's run."""


class DrainTimeout(InboxdError, AssertionError):
    """An inbox was not drained in time: rows in it are still due, or a hook does not end."""


class HandlerTimeout(InboxdError, TimeoutError):
    """The handler ran longer than its timeout."""


class HandlerCrashed(InboxdError):
    """The handler's process ended before it gave a result."""


class PayloadError(InboxdError):
    """The payload cannot be decoded."""

    def __init__(self, message: str = "", path: str | None = None) -> None:
        """Refuse a payload for good: a further attempt would fail as well (promise 10).

        `path` names the field (`students.3.email`); neither it nor `message` may hold its value.
        """
        super().__init__(message, path)
        self.message = message or _default_message(type(self))
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class TooNew(PayloadError):
    """The payload has a newer version than this worker can read."""


class Unauthentic(InboxdError):
    """No valid key of the source has signed this request."""

    # The message is for the log; the sender does not see it.


class Malformed(InboxdError):
    """The data that authenticates this request is missing, malformed or stale."""


class Retry(InboxdError):
    """The handler asked to run again."""

    def __init__(
        self,
        after: timedelta | str | float | None = None,
        reason: str = "",
        at_least: bool = False,  # noqa: FBT001, FBT002 - pickled by position
    ) -> None:
        """Ask for another attempt; this one is spent (R0.25).

        `after` is a timedelta, a duration with its unit ("90s") or a number of seconds, counted
        from now; None leaves the wait to the handler's policy. `at_least`: the policy's wait counts
        if it is longer.
        """
        super().__init__(after, reason, at_least)
        self.after = after
        self.reason = reason
        self.at_least = at_least

    def __str__(self) -> str:
        return self.reason or _default_message(type(self))


class Defer(InboxdError):
    """The handler asked to run later."""

    def __init__(
        self, until: datetime | None = None, after: timedelta | str | float | None = None
    ) -> None:
        """Ask to run later without spending an attempt: give `until` or `after`, not both.

        `until` carries a time zone; `after` is as in `Retry`. Raises UsageError otherwise.
        """
        if (until is None) == (after is None):
            raise UsageError("Defer needs either until= or after=, and not both.")
        if until is not None and until.tzinfo is None:
            raise UsageError("Defer(until=...) needs a time zone: datetime(..., tzinfo=UTC).")
        super().__init__(until, after)
        self.until = until
        self.after = after

    def __str__(self) -> str:
        return _default_message(type(self))


class BreakerOpen(Defer):
    """The target's breaker is open: the row runs again after the break."""

    def __init__(self, name: str, seconds: float) -> None:
        """`name` is the breaker's; it may be tried again after `seconds`."""
        InboxdError.__init__(self, name, seconds)
        self.name = name
        self.until, self.after = None, seconds

    def __str__(self) -> str:
        return (
            f"the breaker {self.name!r} is open: it may be tried again in {self.after:g} s; "
            f"`inboxd breakers show {self.name}` says why"
        )


class Reject(InboxdError):
    """The handler rejected the payload for good."""

    def __init__(self, reason: str = "") -> None:
        """Make this a dead letter now, whatever the policy says; `reason` is shown with it."""
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason or _default_message(type(self))


def _refused(reason: str, for_good: bool, unroutable: bool) -> MessageRefused:  # noqa: FBT001 - pickled by position
    return MessageRefused(reason, for_good=for_good, unroutable=unroutable)


def _default_message(cls: type[BaseException]) -> str:
    """The first line of the docstring; the bare name under `python -OO`, which has none."""
    return (cls.__doc__ or cls.__name__).partition("\n")[0]
