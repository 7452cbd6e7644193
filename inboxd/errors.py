"""The one exception tree, and the three signals by which a handler names its own outcome.

Owns every exception class of inboxd. Promises: `except InboxdError` catches all of them; a class
without a message of its own has the first line of its docstring; a message names the
thing, the cause and the remedy, and never a payload or a secret. All of them survive pickling,
because handlers also run in child processes.
Known limit: drivers' exceptions are wrapped at the boundary that talks to the driver, not here.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Self
from uuid import UUID


class InboxdError(Exception):
    """Something in inboxd went wrong."""

    # What the command line says behind it: the option that would help.
    on_terminal = ""

    def on_terminals(self, told: str) -> Self:
        """The same; on a terminal, with this behind it."""
        self.on_terminal = told
        return self

    def __str__(self) -> str:
        return super().__str__() or _default_message(type(self))


class SettingsError(InboxdError):
    """The settings are wrong: correct what the message names and start again."""


class UsageError(InboxdError, ValueError):
    """An argument given to inboxd is wrong."""

    # A ValueError too, so that a pydantic validator may call the function that raises it.


class PluginError(InboxdError):
    """A plugin cannot be used: correct or uninstall the distribution that provides it."""


class LifespanFailed(InboxdError):
    """A plugin's resource could not be opened: see what its lifespan waits for, and start again."""


class SchemaError(InboxdError):
    """The database schema does not fit this version: run `inboxd migrate`."""


class DatabaseError(InboxdError):
    """The database cannot be used: it is unreachable, or a privilege is missing."""


class DatabaseAway(DatabaseError):
    """The database does not answer: wait until it takes connections, or correct where it is."""


class SpoolFull(InboxdError):
    """There is no room in the spool: mend the database, so that it drains, or give it more."""


class SpoolBroken(InboxdError):
    """The spool's disk failed: nothing is accepted into it until the receiver is started again."""


class UnreadableReceipt(InboxdError):
    """A frame of the spool holds no receipt that this version can read."""


class SpoolOwned(InboxdError):
    """Another process owns this folder of the spool."""


class TargetUnreachable(InboxdError):
    """A target gave no answer: it is asked again later."""


class TargetRefused(InboxdError):
    """A target may not be asked: correct its URL or its headers, or allow its address."""


class BrokerUnavailable(InboxdError):
    """A broker cannot be reached, or was lost: what was not confirmed is published again."""


class MessageRefused(InboxdError):
    """A broker refused a message."""

    def __init__(
        self, reason: str = "", *, for_good: bool = False, unroutable: bool = False
    ) -> None:
        """`for_good`: it would be refused again, so it is a dead letter at once.

        unroutable: it is refused since nothing there takes what is sent to that place.
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
    """A broker no longer has what follows the stored position: say where to go on."""


class ExportError(InboxdError):
    """A partition could not be exported: it stays, and is tried again."""


class PartitionBusy(InboxdError):
    """A partition is in use: it goes later."""


class LeaseLost(InboxdError):
    """This worker lost its lease: nothing it does for the row counts any more."""


class UniqueKeyTaken(InboxdError):
    """Another unsettled command of its type has this unique key, and was not to be touched."""


class DedupKeyHeld(InboxdError):
    """A dedup key is recorded in a transaction that is open: end it, or wait until it ends."""


class Unreachable(InboxdError):
    """Nobody answers at this address: start what should, or correct the address."""


class NotFound(InboxdError):
    """There is no such row: look the id up with `inboxd events list` or `commands list`."""


class UnknownName(NotFound):
    """Nothing declares this name: correct it, or insist with --force."""


class UnknownCommand(NotFound):
    """There is no command of this id: it has not committed, or its history is gone."""


class CommandFailed(InboxdError):
    """The command is a dead letter: it has failed for good, and an operator may run it again."""

    def __init__(self, command_id: UUID, error: str) -> None:
        """`error` is that of its last attempt."""
        super().__init__(command_id, error)
        self.command_id = command_id
        self.error = error

    def __str__(self) -> str:
        return f"command {self.command_id} has failed: {self.error or 'no error is kept'}"


class CommandCancelled(InboxdError):
    """The command was cancelled, and has no result."""

    def __init__(self, command_id: UUID) -> None:
        super().__init__(command_id)
        self.command_id = command_id

    def __str__(self) -> str:
        return f"command {self.command_id} was cancelled"


class ResultTimeout(InboxdError, TimeoutError):
    """The command has not ended in time: it goes on, and may be waited for again."""

    def __init__(self, command_id: UUID, status: str, seconds: float) -> None:
        """`status` is that of the last look; empty: no look was answered. `seconds` have passed."""
        super().__init__(command_id, status, seconds)
        self.command_id = command_id
        self.status = status
        self.seconds = seconds

    def __str__(self) -> str:
        how = f"is {self.status}" if self.status else "has not been seen"
        seconds = f"{round(self.seconds, 1):g}"
        return (
            f"command {self.command_id} {how} after {seconds} s: it goes on, and may be waited for "
            "again"
        )


class Conflict(InboxdError):
    """The row's status does not allow this action."""


class NoHandler(InboxdError):
    """No handler for this type: install a plugin that declares it, then replay the row."""


class NotDurable(InboxdError):
    """What was received is not durable: it is to be sent again."""


class HandlersFailed(InboxdError, AssertionError):
    """Handlers failed that a test ran."""


class DrainTimeout(InboxdError, AssertionError):
    """An inbox was not drained in time: something in it is due still, or a hook does not end."""


class HandlerTimeout(InboxdError, TimeoutError):
    """The handler ran longer than its timeout."""


class HandlerCrashed(InboxdError):
    """The handler's process ended before it gave a result."""


class PayloadError(InboxdError):
    """The payload cannot be decoded."""

    def __init__(self, message: str = "", path: str | None = None) -> None:
        """Refuse a payload for good: it will be no better at the next attempt (promise 10).

        `path` names the field (`students.3.email`); neither it nor `message` may hold its value.
        """
        super().__init__(message, path)
        self.message = message or _default_message(type(self))
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class TooNew(PayloadError):
    """The payload was written as a version that this worker cannot read yet."""


class Unauthentic(InboxdError):
    """No valid key of the source has signed this request."""

    # What it says is for the log: the sender learns nothing of it.


class Malformed(InboxdError):
    """What should authenticate this request is missing, broken or stale."""


class Retry(InboxdError):
    """The handler asked to run again."""

    def __init__(
        self,
        after: timedelta | str | float | None = None,
        reason: str = "",
        at_least: bool = False,  # noqa: FBT001, FBT002 - pickled by its place
    ) -> None:
        """Ask for another attempt; this one is spent (R0.25).

        `after` is a timedelta, a duration with its unit ("90s") or a number of seconds, counted
        from now; None leaves the wait to the handler's policy. `at_least`: the policy's wait
        counts where it is longer.
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
    """The target's breaker is open: what needs it runs again when its break is over."""

    def __init__(self, name: str, seconds: float) -> None:
        """`name` is the breaker's; in so many seconds it may be tried again."""
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


def _refused(reason: str, for_good: bool, unroutable: bool) -> MessageRefused:  # noqa: FBT001 - pickled by their places
    return MessageRefused(reason, for_good=for_good, unroutable=unroutable)


def _default_message(cls: type[BaseException]) -> str:
    """The first line of the docstring; the bare name under `python -OO`, which has none."""
    return (cls.__doc__ or cls.__name__).partition("\n")[0]
