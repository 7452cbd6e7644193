"""The decorators of a plugin.

Owns `Handlers`, the object that a plugin's entry point names. Promises: a declaration is only
stored; functions stay unchanged, so that tests can call them; `build` finds all mistakes at once,
after the whole module was read, so that annotations may point forward.
Known limit: declarations made after the daemon has started have no effect.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Concatenate, Literal, TypeVar, Unpack, overload

from inboxd.api.chunks import BlockingEventChunk, EventChunk
from inboxd.api.context import (
    BlockingCommandContext,
    BlockingEventContext,
    CommandContext,
    EventContext,
)
from inboxd.api.declaration import (
    CommandHandlerOptions,
    Declared,
    EventHandlerOptions,
    HandlerDeclaration,
    HandlerOptions,
    SentOnOptions,
    Upcasting,
    build,
)
from inboxd.api.hooks import FailedAttempt, HookDeclaration, Moment, WorkerInfo, check_hooks
from inboxd.api.messages import Event
from inboxd.api.middleware import Call, Proceed
from inboxd.api.records import Upcaster
from inboxd.api.resources import OPENING, LifespanDeclaration, check_lifespans
from inboxd.api.schedules import ScheduleDeclaration, ScheduleOptions
from inboxd.api.topics import TopicDeclaration, TopicOptions
from inboxd.errors import UsageError
from inboxd.model import checks
from inboxd.model.backoff import Policy
from inboxd.model.duration import Duration
from inboxd.resilience.rules import BreakerOptions, BreakerRules, with_options

# After its own arguments, a function may take resources: `...`.
OnEvent = TypeVar(
    "OnEvent",
    bound=Callable[Concatenate[Event[Any], EventContext, ...], Awaitable[None]]
    | Callable[Concatenate[Event[Any], BlockingEventContext, ...], None],
)
OnChunk = TypeVar(
    "OnChunk",
    bound=Callable[Concatenate[EventChunk[Any], EventContext, ...], Awaitable[None]]
    | Callable[Concatenate[BlockingEventChunk[Any], BlockingEventContext, ...], None],
)
OnEventLater = TypeVar(
    "OnEventLater",
    bound=Callable[Concatenate[Event[Any], CommandContext, ...], Awaitable[object]]
    | Callable[Concatenate[Event[Any], BlockingCommandContext, ...], object],
)
OnEventInProcess = TypeVar("OnEventInProcess", bound=Callable[[Event[Any]], object])
OnCommand = TypeVar(
    "OnCommand",
    bound=Callable[Concatenate[Any, CommandContext, ...], Awaitable[object]]
    | Callable[Concatenate[Any, BlockingCommandContext, ...], object],
)
OnCommandInProcess = TypeVar("OnCommandInProcess", bound=Callable[[Any], object])
M = TypeVar("M", bound=Callable[Concatenate[Call, Proceed, ...], Awaitable[object]])
L = TypeVar("L", bound=Callable[..., AsyncIterator[Any]] | Callable[..., Iterator[Any]])
OnWorker = TypeVar("OnWorker", bound=Callable[Concatenate[WorkerInfo, ...], Awaitable[None]])
OnError = TypeVar("OnError", bound=Callable[Concatenate[FailedAttempt, ...], Awaitable[None]])
U = TypeVar("U", bound=Upcaster)
H = TypeVar("H", bound=Callable[..., Any])


class Handlers:
    """The handlers of one plugin: `handlers = Handlers("school")`, named by its entry point."""

    def __init__(self, name: str) -> None:
        """Collect declarations under the plugin's `name`."""
        self.name = name
        self._declarations: list[HandlerDeclaration] = []
        self._upcastings: list[Upcasting] = []
        self._middleware: list[Callable[..., Awaitable[object]]] = []
        self._lifespans: list[LifespanDeclaration] = []
        self._hooks: list[HookDeclaration] = []
        self._schedules: list[ScheduleDeclaration] = []
        self._topics: list[TopicDeclaration] = []
        self._breakers: dict[str, BreakerRules] = {}

    def __repr__(self) -> str:
        return f"Handlers({self.name!r})"

    @overload
    def event(
        self, type: str, **options: Unpack[EventHandlerOptions]
    ) -> Callable[[OnEvent], OnEvent]: ...

    @overload
    def event(
        self, type: str, *, as_command: Literal[True], **options: Unpack[SentOnOptions]
    ) -> Callable[[OnEventLater], OnEventLater]: ...

    @overload
    def event(
        self,
        type: str,
        *,
        as_command: Literal[True],
        executor: Literal["process"],
        **options: Unpack[SentOnOptions],
    ) -> Callable[[OnEventInProcess], OnEventInProcess]: ...

    def event(
        self,
        type: str,
        *,
        as_command: bool = False,
        executor: Literal["process"] | None = None,
        **options: Unpack[SentOnOptions],
    ) -> Callable[[Any], Any]:
        """Handle events of `type`, inside the transaction that settles their page.

        With a `topic`, handle only the events of this topic; the topic then also gets the events of
        `type` whose producer names no topic. Without a `topic`, handle the events of each topic
        that has no handler of its own.

        `as_command=True` sends each event on as a command of type `<plugin>.<function>` in `queue`,
        for slow work: the handler then gets a CommandContext, and a transaction and retries of its
        own. A sync function runs in a thread; `executor="process"` (with as_command) in a process
        that can be killed, and takes only the event. `timeout` and `retry` override the settings.
        `breaker` names the breaker of the target that the handler calls: while it is open, the
        events wait. `title` and `description` describe the type for people; the default description
        is the docstring's first line.
        """
        ways = {"as_command": as_command, "executor": executor}
        return self._declare("event", type, SentOnOptions, options, **ways)

    def chunk(
        self,
        *types: str,
        topic: str,
        schema_version: int | Mapping[str, int] = 1,
        timeout: Duration | None = None,
        retry: Policy | None = None,
        split: bool = True,
        breaker: str | None = None,
        title: str | None = None,
        description: str | None = None,
    ) -> Callable[[OnChunk], OnChunk]:
        """Handle the chunks of a batch topic, inside the transaction that settles them.

        The topic gets the events of `types` whose producer names no topic. `schema_version` may be
        given by type. If a handler fails, its chunk is halved until the failing event is isolated;
        with `split=False`, for chunks whose parts mean nothing, it is retried as a whole. `timeout`
        overrides `events.chunk_timeout`; `retry`, `breaker`, `title` and `description` are as for
        `event`.
        """
        if not types or not all(isinstance(each, str) for each in types):
            raise UsageError('Name the types: @handlers.chunk("…", topic="…").')

        def declare(func: OnChunk) -> OnChunk:
            for type_ in types:
                given = schema_version
                self._declarations.append(
                    HandlerDeclaration(
                        kind="event",
                        func=func,
                        type=type_,
                        topic=topic,
                        schema_version=given if isinstance(given, int) else given.get(type_, 1),
                        timeout=timeout,
                        retry=retry,
                        chunks=True,
                        split=split,
                        breaker=breaker,
                        title=title,
                        description=description,
                    )
                )
            return func

        return declare

    @overload
    def command(
        self, type: str, **options: Unpack[CommandHandlerOptions]
    ) -> Callable[[OnCommand], OnCommand]: ...

    @overload
    def command(
        self,
        type: str,
        *,
        executor: Literal["process"],
        **options: Unpack[CommandHandlerOptions],
    ) -> Callable[[OnCommandInProcess], OnCommandInProcess]: ...

    def command(
        self,
        type: str,
        *,
        executor: Literal["process"] | None = None,
        **options: Unpack[CommandHandlerOptions],
    ) -> Callable[[Any], Any]:
        """Run commands of `type`, each in its own transaction; the return value is the result.

        A sync function runs in a thread; `executor="process"` in a process that can be killed, for
        CPU work; it takes only the command. `timeout` and `retry` override the settings. Commands
        wait in `queue` ("default") by `priority` (0); `schema_version` (1) is the version that the
        handler reads. `breaker` names the breaker of the target that the handler calls: while it is
        open, the commands wait. `title` and `description` are as for events.
        """
        return self._declare("command", type, CommandHandlerOptions, options, executor=executor)

    def middleware(self, func: M) -> M:
        """Wrap `func(call, proceed)` around every handler of the plugin, the first outermost."""
        self._middleware.append(func)
        return func

    @overload
    def lifespan(self, func: L, /) -> L: ...

    @overload
    def lifespan(self, func: None = None, /, *, timeout: Duration = ...) -> Callable[[L], L]: ...

    def lifespan(self, func: Any = None, /, *, timeout: Duration = OPENING) -> Any:
        """Open a resource in each worker process, before it joins; close it when it has left.

        `func` is an async generator function (a sync one runs in a thread) that yields the resource
        once; the code after the `yield` closes it. Its annotation, `-> AsyncIterator[T]`, gives the
        type T by which functions of the plugin take the resource: handlers, middleware, hooks and
        later lifespans, by a further parameter of that type. `timeout` limits the opening, and the
        closing.
        """

        def declare(func: Any) -> Any:
            self._lifespans.append(LifespanDeclaration(func, timeout))
            return func

        return declare if func is None else declare(func)

    def on_start(self, func: OnWorker) -> OnWorker:
        """Call `func(worker)` when the worker is ready for the first time, beside its work."""
        return self._hook("on_start", func)

    def on_stop(self, func: OnWorker) -> OnWorker:
        """Call `func(worker)` when the worker has drained, before its resources are closed."""
        return self._hook("on_stop", func)

    def on_error(self, func: OnError) -> OnError:
        """Call `func(failed)` for each failed attempt of this worker, once that has committed.

        The hook cannot change the outcome, and delays nothing.
        """
        return self._hook("on_error", func)

    def upcaster(self, type: str, *, from_version: int) -> Callable[[U], U]:
        """Convert a payload (decoded JSON) of `from_version` to the next version."""

        def declare(func: U) -> U:
            self._upcastings.append(Upcasting(func=func, type=type, from_version=from_version))
            return func

        return declare

    def topic(self, name: str, **options: Unpack[TopicOptions]) -> None:
        """Declare how the events of the topic `name` are processed.

        `[topics]` of the settings may change it.

        mode: "single", each event by itself; "sequential", events of one ordering key in order;
        "batch", many events as one chunk. `key` is a JSON pointer to the ordering key in the
        payload, for producers that give none. Sequential: `on_failure` is the effect of a dead
        letter on its key, "block" or "skip". Batch: a chunk is due at `count` events, at the `age`
        of its oldest event, at the times of `cron` in `zone`, or when it has all events that it
        must `expect` (event types, or a number), with `age` as the deadline. `dedup`: "event_id" or
        a JSON pointer to the dedup key.
        """
        _refuse_unknown("topic", options, TopicOptions)
        self._topics.append(TopicDeclaration(name, f"plugin {self.name}", options))

    def breaker(self, name: str, **options: Unpack[BreakerOptions]) -> None:
        """Declare when the breaker `name` opens, and for how long; `[breakers]` may change it.

        It opens when `failure_ratio` of at least `minimum_calls` calls in the `window` failed, or
        `consecutive_failures` in a row, or when `slow_ratio` of the calls took longer than
        `slow_call`. The first break lasts `first_break`; while probes fail, each further break is
        twice as long, up to `longest_break`; each is lengthened at random by up to the share
        `jitter`. After a break one worker tries `probes` calls. While the breaker is open, its
        commands wait, or a command of the type `fallback` is sent for each. An undeclared breaker
        has the defaults; two plugins may share a breaker that one of them declares.
        """
        _refuse_unknown("breaker", options, BreakerOptions)
        checks.refuse(f"the breaker {name!r:.60}", checks.plain(name))
        if name in self._breakers:
            raise UsageError(f"the breaker {name!r} is declared twice: keep one.")
        self._breakers[name] = with_options(BreakerRules(), options)

    def schedule(
        self,
        name: str,
        cron: str,
        payload: object = None,
        **options: Unpack[ScheduleOptions],
    ) -> None:
        """Send `payload` at the times of `cron` in `zone`, once over all workers.

        A payload whose class a command handler takes needs no type; anything else that fits JSON
        needs `command=` or `event=`. `time_field` names a field of the payload that gets the time
        of the run. `missed` is the policy for runs that no worker could send in time: "skip",
        "once" or "all". A command that has not started `expires_after` its run is cancelled. The
        schedule's full name is `<plugin>.<name>`; `[schedules]` of the settings may change it.
        `title` and `description` describe it for people.
        """
        _refuse_unknown("schedule", options, ScheduleOptions)
        self._schedules.append(
            ScheduleDeclaration(
                name=f"{self.name}.{name}",
                source=f"plugin {self.name}",
                cron=cron,
                payload=payload,
                **options,
            )
        )

    def build(self) -> Declared:
        """Check the declarations; problems are listed in the result, not raised."""
        lifespans, problems = check_lifespans(self.name, self._lifespans)
        known = None if problems else lifespans
        hooks, more = check_hooks(self.name, self._hooks, known)
        declared = build(self.name, self._declarations, self._upcastings, self._middleware, known)
        return replace(
            declared,
            problems=(*problems, *more, *declared.problems),
            schedules=tuple(self._schedules),
            topics=tuple(self._topics),
            lifespans=lifespans,
            hooks=hooks,
            breakers=dict(self._breakers),
        )

    def _hook(self, moment: Moment, func: H) -> H:
        self._hooks.append(HookDeclaration(moment, func))
        return func

    def _declare(
        self,
        kind: Literal["event", "command"],
        type_: str,
        known: type[HandlerOptions],
        options: HandlerOptions,
        **ways: Any,
    ) -> Callable[[Any], Any]:
        if callable(type_):  # without parentheses the handler would be lost
            raise UsageError(f'Name the type: @handlers.{kind}("…"), not @handlers.{kind}.')
        _refuse_unknown(kind, options, known)

        def declare(func: Any) -> Any:
            self._declarations.append(
                HandlerDeclaration(kind=kind, func=func, type=type_, **options, **ways)
            )
            return func

        return declare


def _refuse_unknown(function: str, options: Mapping[str, object], known: type) -> None:
    """Raise TypeError, as Python does for parameters: not every author runs a type checker."""
    for name in options.keys() - known.__annotations__.keys():
        raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")
