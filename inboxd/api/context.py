"""What a handler has beside its payload: the transaction, what it sends, its identity, its log.

Owns the two contexts and the gathering of commands and events. Promises: what is sent is written
with the settlement or not at all (promise 2); once the handler has ended, its context refuses to
send or to give its connection, so that a task it left behind changes nothing.
Known limit: a connection that was taken out of the context earlier is the runtime's to close.
*See:* `engine/execution.py`, which hands it to the handler; `groups`.
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

# How long an open batch waits for its close, unless its maker says otherwise.
OPEN_FOR = "1d"


class Log(Protocol):
    """A logger that takes fields: `ctx.log.info("mail sent", student_id=3)`."""

    def debug(self, event: str, *args: Any, **fields: Any) -> Any:
        """Log for developers."""

    def info(self, event: str, *args: Any, **fields: Any) -> Any:
        """Log for operators."""

    def warning(self, event: str, *args: Any, **fields: Any) -> Any:
        """Log what may need a look."""

    def error(self, event: str, *args: Any, **fields: Any) -> Any:
        """Log what needs a look."""

    def exception(self, event: str, *args: Any, **fields: Any) -> Any:
        """Log an error with the traceback being handled."""


class _Context(Generic[C]):
    """What both contexts share; made anew for each execution of a handler."""

    __slots__ = ("_groups", "_lend", "_routes", "_row", "drafts", "events", "log")
    _KEY: ClassVar[str]  # the column of the row's uuid
    _HOLDS: ClassVar[str]  # as what it is known to breakers

    def __init__(self, row: Row, lend: Callable[[], C], routes: Routes, log: Log) -> None:
        """Serve one execution for `row`, a row of `events` or `commands`.

        `lend` gives the connection, the same each time; a handler that never asks pays for none.
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
        """The row's own transaction; its first use opens it, so a handler without it costs none."""
        return self._lend()

    @property
    def tenant(self) -> str | None:
        """The tenant of the row; what is sent and emitted belongs to it unless told otherwise."""
        return cast("str | None", self._row["tenant"])

    @property
    def correlation_id(self) -> str:
        """The story that the row belongs to; of a row that begins one, its own id."""
        return cast("str | None", self._row["correlation_id"]) or str(self._row[self._KEY])

    @property
    def attempt(self) -> int:
        """The number of this execution; the first is 1."""
        return cast("int", self._row["attempts"]) + 1

    def now(self) -> datetime:
        """The time, aware and in UTC: the worker's; in tests the one that they set."""
        return now()

    def breaker(self, name: str) -> BreakerCall:
        """Call a target, if its breaker lets it pass: `async with ctx.breaker("brevo"):`.

        What the block raises counts as the target's failure, but a verdict such as Reject. While
        the breaker is open, entering raises BreakerOpen; a handler that does not catch it is run
        again when the break is over, with no attempt spent. In a thread it is `with`.
        """
        checks.refuse(f"the breaker {name!r:.60}", checks.plain(name))
        return BreakerCall(name, (self._HOLDS, cast("int", self._row["id"])))

    def send(self, command: object, **options: Unpack[SendAloneOptions]) -> UUID:
        """Send a command with this row's settlement; returns its id.

        `command` is a payload whose class a command handler takes, or that names its type itself
        (`inboxd_command`), or anything that fits JSON with `type=`. Queue and priority default to
        what the type declares. `delay` counts from the settlement.
        Commands of a queue with the same `ordering_key` run one after the other, in
        the order in which they were sent. At most one unsettled command of a type has a
        `unique_key`: if there is one when this is written, `on_conflict` says whether it is kept
        (and this one not written), replaced (cancelled, unless it runs), or this handler fails
        (`reject`). Raises UsageError for arguments that do not fit together, and PayloadError for
        a payload that cannot be stored.
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

        `event` is a payload whose class a handler of events takes, or that names its type itself
        (`inboxd_event`); or a type, and `payload` anything that fits JSON. It continues this row's
        story. Without a `topic` it goes to every topic that its type is subscribed to; the options
        are as a producer gives them, and `delay` counts from the settlement. Of the events of a
        topic and `source` with the same `dedup_key` one is written. Raises UsageError for what no
        event can have, and PayloadError for a payload that cannot be stored.
        """
        draft = event_draft(self._routes, event, payload, options, self.tenant)
        self.events.append(draft)
        return draft.event_id

    def webhook(self, type: str, payload: object = None, **options: Unpack[WebhookOptions]) -> None:
        """Send a webhook with this row's settlement: to each endpoint whose types match.

        `payload` is anything that fits JSON: the endpoint gets it as `data`. Of a `message_id` each
        endpoint gets one delivery; without, the id is made. An `ordering_key` counts for endpoints
        that are ordered. Raises UsageError for what no webhook can have, and PayloadError for a
        payload that cannot be stored.
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

        `batch_type` says what kind of work it is, by which lists are filtered; `name` is any text.
        An `open` batch may be filled by other handlers, with `add_to`, until one of them closes it
        with `close_batch`; left open for longer than `expires`, it takes no more.
        """
        closes = duration.seconds(expires) if open else None
        making = self._grouping().make(
            "batch", name, type=batch_type, tenant=options.get("tenant"), expires=closes
        )
        return filled(self._grouping(), making, commands, options)

    def workflow(
        self, name: str | None = None, *, type: str | None = None, tenant: str | None = None
    ) -> Workflow:
        """Make a workflow: steps that wait for each other; `type` is as a batch's."""
        making = self._grouping().make("workflow", name, type=type, tenant=tenant)
        return Workflow(self._grouping(), making)

    def add_to(
        self, batch_id: UUID, commands: Iterable[object], **options: Unpack[SendOptions]
    ) -> list[UUID]:
        """Send commands as members of an open batch; returns their ids.

        The attempt fails, and nothing is written, if the batch is closed, cancelled or expired.
        """
        groups = self._grouping()
        groups.check_open()
        check_batch_id(batch_id)
        check_many(commands)
        return [groups.send_to(batch_id, command, options) for command in commands]

    def close_batch(self, batch_id: UUID) -> None:
        """Let an open batch take no more members: it ends when those that it has have ended."""
        check_batch_id(batch_id)
        self._grouping().close_batch(batch_id)

    def _grouping(self) -> Groups:
        if self._groups is None:
            if self._routes is ENDED:
                ended()
            self._groups = Groups(self.send, self.drafts, self.tenant)
        return self._groups

    def plan(self) -> Plan | None:
        """The batches that the handler made, if any; for the runtime, when it has ended well.

        Raises UsageError for steps that wait for each other in a circle, and the like.
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


# Reads what an earlier step of a command's workflow returned: at once in a thread, else something
# to await.
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
        """As for events; `results` reads those of earlier steps, `say` takes the progress."""
        super().__init__(row, lend, routes, log)
        self._results = results
        self._say = say

    @overload
    def result(self: CommandContext[Connection], step: str) -> Coroutine[Any, Any, Any]: ...

    @overload
    def result(self: CommandContext[BlockingConnection], step: str) -> Any: ...

    def result(self, step: str) -> Any:
        """What an earlier step of this command's workflow returned; async handlers await it.

        Raises UsageError if the command is in no workflow, or the step unknown; NotFound if the
        step has no result: because it has not succeeded, is a batch, or its row is not kept.
        """
        if self._results is None:
            raise UsageError(f"There is no result of {step!r}: this command is in no workflow.")
        return self._results(self._row, step)

    def progress(self, done: float, of: float | None = None, note: str | None = None) -> None:
        """Say how far the handler has come: `ctx.progress(30, 100, "pages")`.

        As often as one likes, and from a thread: the newest is written about once a second,
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
        """The queue that the command is in."""
        return cast("str", self._row["queue"])

    @property
    def traceparent(self) -> str | None:
        """The trace that the command continues (W3C Trace Context), if it has one."""
        return cast("str | None", self._row["traceparent"])

    @property
    def idempotency_key(self) -> str:
        """The same at every attempt: give it to an external service, and it acts once."""
        return str(self.command_id)

    @property
    def deadline(self) -> datetime | None:
        """When the command stops being worth starting, if ever."""
        return cast("datetime | None", self._row["deadline"])

    @property
    def origin(self) -> Origin:
        """What created the command."""
        return Origin(OriginKind(self._row["origin_kind"]), self._row["origin_id"])


BlockingEventContext = EventContext[BlockingConnection]
BlockingCommandContext = CommandContext[BlockingConnection]
