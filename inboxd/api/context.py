"""A handler's context: the transaction, the sent rows, its row's identity, its log.

Owns the two contexts and the gathering of commands and events. Promises: all that a handler sends
is written with the settlement, or not at all (promise 2); once the handler has ended, its context
refuses to send or to give its connection, so that a task left running changes nothing.
Known limit: a connection that was taken from the context earlier is closed by the runtime.
*See:* `engine/execution.py`, which passes it to the handler; `groups`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from datetime import datetime
from typing import Any, ClassVar, Generic, Protocol, Unpack, cast, overload
from uuid import UUID

from typing_extensions import TypeVar

from inboxd.api.batches import Batch, filled
from inboxd.api.breakers import BreakerCall
from inboxd.api.clock import now
from inboxd.api.connection import BlockingConnection, Connection
from inboxd.api.drafts import CommandDraft, EmittedDraft
from inboxd.api.groups import Groups, Plan, check_batch_id, check_many
from inboxd.api.messages import Row
from inboxd.api.options import (
    NOTHING,
    EmitOptions,
    SendAloneOptions,
    SendOptions,
    WebhookOptions,
    command_draft,
    event_draft,
    webhook_draft,
)
from inboxd.api.progress import Say, checked
from inboxd.api.routes import ENDED, Routes, ended
from inboxd.api.workflows import Workflow
from inboxd.errors import UsageError
from inboxd.model import checks, duration
from inboxd.model.duration import Duration
from inboxd.model.lineage import Origin, OriginKind

C = TypeVar("C", bound=Connection | BlockingConnection, default=Connection)

# How long an open batch waits for its close, by default.
OPEN_FOR = "1d"


class Log(Protocol):
    """A logger that takes fields: `ctx.log.info("mail sent", student_id=3)`."""

    def debug(self, event: str, *args: Any, **fields: Any) -> Any:
        """Log for developers."""

    def info(self, event: str, *args: Any, **fields: Any) -> Any:
        """Log for operators."""

    def warning(self, event: str, *args: Any, **fields: Any) -> Any:
        """Log something that may need a look."""

    def error(self, event: str, *args: Any, **fields: Any) -> Any:
        """Log something that needs a look."""

    def exception(self, event: str, *args: Any, **fields: Any) -> Any:
        """Log an error with the traceback being handled."""


class _Context(Generic[C]):
    """The parts that both contexts share; made anew for each execution of a handler."""

    __slots__ = ("_groups", "_lend", "_routes", "_row", "drafts", "events", "log")
    _KEY: ClassVar[str]  # the column of the row's uuid
    _HOLDS: ClassVar[str]  # the kind of the row for breakers

    def __init__(self, row: Row, lend: Callable[[], C], routes: Routes, log: Log) -> None:
        """Serve one execution for `row`, a row of `events` or `commands`.

        `lend` gives the connection, the same each time; it is opened only if the handler asks for
        it.
        """
        self._row = row
        self._lend = lend
        self._routes = routes
        self.log = log
        self.drafts: list[CommandDraft] = []
        self.events: list[EmittedDraft] = []
        self._groups: Groups | None = None

    @property
    def connection(self) -> C:
        """The connection in the row's own transaction, which the first use opens."""
        return self._lend()

    @property
    def tenant(self) -> str | None:
        """The tenant of the row; by default, all that the handler sends belongs to it."""
        return cast("str | None", self._row["tenant"])

    @property
    def correlation_id(self) -> str:
        """The story that the row belongs to; for a row that begins a story, its own id."""
        return cast("str | None", self._row["correlation_id"]) or str(self._row[self._KEY])

    @property
    def attempt(self) -> int:
        """The number of this execution; the first is 1."""
        return cast("int", self._row["attempts"]) + 1

    def now(self) -> datetime:
        """The worker's time, aware and in UTC; in tests, the time that they set."""
        return now()

    def breaker(self, name: str) -> BreakerCall:
        """Call a target, if its breaker lets it pass: `async with ctx.breaker("brevo"):`.

        An exception in the block counts as a failure of the target, except a verdict such as
        Reject. While the breaker is open, entering the block raises BreakerOpen; if the handler
        does not catch it, it is run again when the break is over, with no attempt spent. In a
        thread, use `with`.
        """
        checks.refuse(f"the breaker {name!r:.60}", checks.plain(name))
        return BreakerCall(name, (self._HOLDS, cast("int", self._row["id"])))

    def send(self, command: object, **options: Unpack[SendAloneOptions]) -> UUID:
        """Send a command with this row's settlement; returns its id.

        `command` is a payload whose class a command handler takes, or that names its own type
        (`inboxd_command`), or, with `type=`, anything that fits JSON. Queue and priority default to
        the type's declaration. `delay` counts from the settlement.

        Commands of a queue with the same `ordering_key` run one after the other, in the order in
        which they were sent. At most one unsettled command of a type has a `unique_key`. If another
        one has it when this command is written, `on_conflict` decides: "keep" the other one and do
        not write this command, "replace" it (it is cancelled, unless it runs), or "reject": this
        handler fails.

        Raises UsageError for arguments that do not fit together, and PayloadError for a payload
        that cannot be stored.
        """
        draft = command_draft(self._routes, command, options, self.tenant)
        self.drafts.append(draft)
        return draft.command_id

    @overload
    def emit(self, event: str, payload: object = None, **options: Unpack[EmitOptions]) -> UUID: ...

    @overload
    def emit(self, event: object, **options: Unpack[EmitOptions]) -> UUID: ...

    def emit(
        self, event: object, payload: object = NOTHING, **options: Unpack[EmitOptions]
    ) -> UUID:
        """Emit an event with this row's settlement; returns its `event_id`.

        `event` is a payload whose class an event handler takes, or that names its own type
        (`inboxd_event`); or a type, with anything that fits JSON as `payload`. The event continues
        this row's story. Without a `topic` it goes to every topic that subscribes to its type; the
        options are a producer's, and `delay` counts from the settlement. Only one of the events
        with the same topic, `source` and `dedup_key` is written. Raises UsageError for invalid
        options, and PayloadError for a payload that cannot be stored.
        """
        draft = event_draft(self._routes, event, payload, options, self.tenant)
        self.events.append(draft)
        return draft.event_id

    def webhook(self, type: str, payload: object = None, **options: Unpack[WebhookOptions]) -> None:
        """Send a webhook with this row's settlement: to each endpoint whose types match.

        `payload` is anything that fits JSON: the endpoint gets it as `data`. Each endpoint gets one
        delivery per `message_id`, which is generated if it is not given. An `ordering_key` counts
        for endpoints that are ordered. Raises UsageError for invalid options, and PayloadError for
        a payload that cannot be stored.
        """
        if self._routes is ENDED:
            ended()
        self.events.append(webhook_draft(type, payload, options, self.tenant))

    def batch(
        self,
        commands: Iterable[object] = (),
        *,
        name: str | None = None,
        batch_type: str | None = None,
        open: bool = False,
        expires: Duration = OPEN_FOR,
        **options: Unpack[SendOptions],
    ) -> Batch:
        """Make a batch of commands; the options are for each of them, and `tenant` for the batch.

        `batch_type` names the kind of work, by which lists are filtered; `name` is any text.
        Other handlers may fill an `open` batch with `add_to`, until one of them closes it with
        `close_batch`; after `expires` it takes no more members.
        """
        closes = duration.seconds(expires) if open else None
        builder = self._grouping().make(
            "batch", name, type=batch_type, tenant=options.get("tenant"), expires=closes
        )
        return filled(self._grouping(), builder, commands, options)

    def workflow(
        self, name: str | None = None, *, type: str | None = None, tenant: str | None = None
    ) -> Workflow:
        """Make a workflow: steps that wait for each other; `type` as for a batch."""
        builder = self._grouping().make("workflow", name, type=type, tenant=tenant)
        return Workflow(self._grouping(), builder)

    def add_to(
        self, batch_id: UUID, commands: Iterable[object], **options: Unpack[SendOptions]
    ) -> list[UUID]:
        """Send commands as members of an open batch; returns their ids.

        If the batch is closed, cancelled or expired, the attempt fails and nothing is written.
        """
        groups = self._grouping()
        groups.check_open()
        check_batch_id(batch_id)
        check_many(commands)
        return [groups.send_to(batch_id, command, options) for command in commands]

    def close_batch(self, batch_id: UUID) -> None:
        """Close an open batch: it takes no more members, and ends when all of them have ended."""
        check_batch_id(batch_id)
        self._grouping().close_batch(batch_id)

    def _grouping(self) -> Groups:
        if self._groups is None:
            if self._routes is ENDED:
                ended()
            self._groups = Groups(self.send, self.drafts, self.tenant)
        return self._groups

    def plan(self) -> Plan | None:
        """The batches that the handler made, or None; for the runtime, when it has ended well.

        Raises UsageError for an invalid plan, such as steps that wait for each other in a circle.
        """
        return None if self._groups is None else self._groups.plan()

    def close(self) -> None:
        """End the context; the runtime calls this when the handler has ended."""
        self._routes, self._lend = ENDED, ended
        if self._groups is not None:
            self._groups.end()


class EventContext(_Context[C]):
    """The context of an event handler."""

    __slots__ = ()
    _KEY = "event_id"
    _HOLDS = "topic"


# Reads the result of an earlier step of a command's workflow; returns an awaitable unless it is
# called in a thread.
Results = Callable[[Row, str], Any]


class CommandContext(_Context[C]):
    """The context of a command handler."""

    __slots__ = ("_results", "_say")
    _KEY = "command_id"
    _HOLDS = "queue"

    def __init__(
        self,
        row: Row,
        lend: Callable[[], C],
        routes: Routes,
        log: Log,
        results: Results | None = None,
        say: Say | None = None,
    ) -> None:
        """`results` reads the results of earlier steps, `say` takes the progress."""
        super().__init__(row, lend, routes, log)
        self._results = results
        self._say = say

    @overload
    def result(self: CommandContext[Connection], step: str) -> Coroutine[Any, Any, Any]: ...

    @overload
    def result(self: CommandContext[BlockingConnection], step: str) -> Any: ...

    def result(self, step: str) -> Any:
        """The result of an earlier step of this command's workflow; async handlers await it.

        Raises UsageError if the command is in no workflow, or the step is unknown; NotFound if the
        step has no result: it has not succeeded, is a batch, or its row was dropped.
        """
        if self._results is None:
            raise UsageError(f"There is no result of {step!r}: this command is in no workflow.")
        return self._results(self._row, step)

    def progress(self, done: float, of: float | None = None, note: str | None = None) -> None:
        """Report how far the handler has come: `ctx.progress(30, 100, "pages")`.

        It may be called often, and from a thread: the newest report is written about once a second,
        outside the handler's transaction. Raises UsageError for an invalid value.
        """
        if self._routes is ENDED:
            ended()
        if self._say is not None:
            self._say(self._row, checked(done, of, note))

    @property
    def id(self) -> int:
        """The row's number: later commands have larger ones."""
        return cast("int", self._row["id"])

    @property
    def command_id(self) -> UUID:
        """The id that `send` returned."""
        return cast("UUID", self._row["command_id"])

    @property
    def queue(self) -> str:
        """The queue of the command."""
        return cast("str", self._row["queue"])

    @property
    def traceparent(self) -> str | None:
        """The trace that the command continues (W3C Trace Context), if it has one."""
        return cast("str | None", self._row["traceparent"])

    @property
    def idempotency_key(self) -> str:
        """A key that is the same at every attempt, for external services that act once per key."""
        return str(self.command_id)

    @property
    def deadline(self) -> datetime | None:
        """The time after which the command is not worth starting, or None."""
        return cast("datetime | None", self._row["deadline"])

    @property
    def origin(self) -> Origin:
        """The creator of the command."""
        return Origin(OriginKind(self._row["origin_kind"]), self._row["origin_id"])


BlockingEventContext = EventContext[BlockingConnection]
BlockingCommandContext = CommandContext[BlockingConnection]
