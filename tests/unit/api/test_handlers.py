"""A plugin's declarations become records, and every mistake is listed with its remedy."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from pydantic import BaseModel

from inboxd.api.context import (
    BlockingCommandContext,
    BlockingEventContext,
    CommandContext,
    EventContext,
)
from inboxd.api.handlers import Handlers
from inboxd.api.messages import Event
from inboxd.api.middleware import Call, Proceed
from inboxd.errors import UsageError
from inboxd.model.backoff import Exponential

if TYPE_CHECKING:
    from decimal import Decimal


class Created(BaseModel):
    id: int


class Send(BaseModel):
    id: int


def render(command: Send) -> int:
    return command.id


def render_event(event: Event[Created]) -> int:
    return event.payload.id


@pytest.fixture
def handlers() -> Handlers:
    return Handlers("school")


def test_class_that_names_another_type_is_refused(handlers: Handlers) -> None:
    class Paid(BaseModel):
        inboxd_event: ClassVar[str] = "order.paid"
        inboxd_command: ClassVar[str] = "shop.pay"

    @handlers.event("order.padi")
    async def another(event: Event[Paid], ctx: EventContext) -> None: ...

    @handlers.event("order.paid", schema_version=2)
    async def newer(event: Event[Paid], ctx: EventContext) -> None: ...

    @handlers.command("shop.paid")
    async def pay(command: Paid, ctx: CommandContext) -> None: ...

    @handlers.event("order.paid")
    async def right(event: Event[Paid], ctx: EventContext) -> None: ...

    built = handlers.build()
    first, second, third = built.problems
    assert "whose inboxd_event is 'order.paid', for 'order.padi'" in first
    assert "as version 2, but" in second
    assert "is written as version 1: correct its inboxd_version" in second
    assert "whose inboxd_command is 'shop.pay', for 'shop.paid'" in third
    assert [event.name.rpartition(".")[2] for event in built.events] == ["right"]


def test_an_async_event_handler(handlers: Handlers) -> None:
    @handlers.event("a.created", schema_version=2, timeout="5s", retry=Exponential(attempts=3))
    async def on_created(event: Event[Created], ctx: EventContext) -> None: ...

    (handler,) = handlers.build().events
    assert (handler.plugin, handler.type, handler.executor) == ("school", "a.created", "loop")
    assert handler.name.endswith("test_an_async_event_handler.<locals>.on_created")
    assert handler.func is on_created
    assert (handler.schema_version, handler.timeout) == (2, 5)
    assert handler.retry == Exponential(attempts=3)
    assert handler.command_type is None


def test_a_sync_command_handler(handlers: Handlers) -> None:
    @handlers.command("school.send", queue="email", priority=-3)
    def send(command: Send, ctx: BlockingCommandContext) -> str:
        return "sent"

    (handler,) = handlers.build().commands
    assert (handler.type, handler.queue, handler.priority) == ("school.send", "email", -3)
    assert (handler.executor, handler.payload_type) == ("thread", Send)
    assert (handler.timeout, handler.retry, handler.event_type) == (None, None, None)


def test_process_handlers_take_only_the_payload(handlers: Handlers) -> None:
    handlers.command("school.render", executor="process")(render)
    handlers.event("a.created", as_command=True, executor="process")(render_event)
    declared = handlers.build()
    assert not declared.problems
    assert {handler.executor for handler in declared.commands} == {"process"}


def test_event_handler_as_command_makes_two_records(handlers: Handlers) -> None:
    @handlers.event("a.created", as_command=True, queue="slow")
    async def on_created(event: Event[Created], ctx: CommandContext) -> None: ...

    declared = handlers.build()
    ((event,), (command,)) = (declared.events, declared.commands)
    assert event.command_type == command.type == "school.on_created"
    assert (command.event_type, command.queue, command.payload_type) == ("a.created", "slow", None)


def test_later_upcasters_and_middleware_count(handlers: Handlers) -> None:
    @handlers.event("a.created", schema_version=2)
    async def on_created(event: Event[Created], ctx: EventContext) -> None: ...

    @handlers.upcaster("a.created", from_version=1)
    def rename(payload: Any) -> Any:
        return payload

    @handlers.middleware
    async def around(call: Call, proceed: Proceed) -> object:
        return await proceed()

    (handler,) = handlers.build().events
    assert handler.upcasters == {1: rename}
    assert [each.func for each in handler.middleware] == [around]


def test_a_bare_event_takes_anything(handlers: Handlers) -> None:
    @handlers.event("a.created")
    async def on_created(event: Event, ctx: EventContext) -> None: ...  # type: ignore[type-arg]

    (handler,) = handlers.build().events
    assert handler.adapter.validate_json('{"a":[1]}') == {"a": [1]}


# ----------------------------------------------------------------------------------- mistakes


async def one_parameter(event: Event[Created]) -> None: ...
async def keyword(event: Event[Created], *, ctx: EventContext) -> None: ...
async def unannotated(event: Event[Created], ctx) -> None: ...  # type: ignore[no-untyped-def] # noqa: ANN001
async def no_event(event: Created, ctx: EventContext) -> None: ...
async def wrong_context(event: Event[Created], ctx: CommandContext) -> None: ...
async def blocking(event: Event[Created], ctx: BlockingEventContext) -> None: ...
def sync_with_async_context(event: Event[Created], ctx: EventContext) -> None: ...
async def unreadable(event: Event["Decimal"], ctx: EventContext) -> None: ...
async def generator(event: Event[Created], ctx: EventContext) -> AsyncIterator[int]:
    yield 1


class Callable_:  # noqa: N801 - a stand-in
    """A callable that is not a function."""

    async def __call__(self, event: Event[Created], ctx: EventContext) -> None: ...


@pytest.mark.parametrize(
    ("func", "message"),
    [
        (one_parameter, "a handler here takes the event or command, and its context"),
        (keyword, "a handler here takes the event or command, and its context"),
        (unannotated, "parameter 'ctx' has no annotation"),
        (no_event, r"its first parameter is Created: annotate it Event\[YourPayload\]"),
        (wrong_context, "its context is CommandContext: an async handler here gets EventContext"),
        (blocking, "an async handler here gets EventContext"),
        (sync_with_async_context, "a sync handler here gets BlockingEventContext"),
        (unreadable, "its annotations cannot be read .*Decimal.* outside `if TYPE_CHECKING`"),
        (generator, "it is a generator"),
        (Callable_(), "only a function can be a handler"),
    ],
)
def test_a_wrong_event_handler_is_a_problem(handlers: Handlers, func: Any, message: str) -> None:
    handlers.event("a.created")(func)
    declared = handlers.build()
    (problem,) = declared.problems
    assert not declared.events
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(problem)


async def takes_event(command: Event[Created], ctx: CommandContext) -> None: ...
async def right(command: Send, ctx: CommandContext) -> None: ...
async def in_process(command: Send) -> int:
    return 1


@pytest.mark.parametrize(
    ("func", "options", "message"),
    [
        (takes_event, {}, "a command handler takes the command itself"),
        (in_process, {"executor": "process"}, "is for sync functions"),
        (lambda command: command, {"executor": "process"}, "at module level"),
        (render, {}, "takes the event or command, and its context"),
        (render, {"executor": "thread"}, 'only "process" is possible'),
        (right, {"queue": "a b"}, "the queue 'a b' must be without spaces"),
        (right, {"schema_version": 0}, "schema_version must be 1 or more"),
        (right, {"schema_version": True}, "schema_version must be an int, not bool"),
        (right, {"priority": 70_000}, "priority must lie between -32768 and 32767"),
        (right, {"retry": 3}, "give a policy"),
        (right, {"timeout": "3"}, "is not a duration"),
    ],
)
def test_a_wrong_command_handler_is_a_problem(
    handlers: Any, func: Any, options: dict[str, Any], message: str
) -> None:
    handlers.command("school.send", **options)(func)
    (problem,) = handlers.build().problems
    assert message in problem


def test_event_handler_refuses_options_of_slow_work(handlers: Handlers) -> None:
    wrong: Any = handlers.event
    wrong("a.created", queue="slow")(render_event)
    wrong("a.created", executor="process")(render_event)
    problems = handlers.build().problems
    assert ["add as_command=True" in problem for problem in problems] == [True, True]


@pytest.mark.parametrize("name", ["", "a b", "a\0", "x" * 256, 3])
def test_names_fit_the_tables(name: Any) -> None:
    handlers = Handlers("school")

    async def on_event(event: Event[Created], ctx: EventContext) -> None: ...

    handlers.event(name)(on_event)
    (problem,) = handlers.build().problems
    assert f"the type {name!r:.60}" in problem


def test_all_problems_are_listed_at_once_with_their_places(handlers: Any) -> None:
    handlers.event("a.created")(one_parameter)
    handlers.event("a.created")(no_event)
    handlers.upcaster("a.other", from_version=1)(render)
    handlers.upcaster("a.created", from_version=1)(render)
    handlers.middleware(one_parameter)
    problems = handlers.build().problems
    assert len(problems) == 5
    assert all("test_handlers.py:" in problem for problem in problems)


def test_useless_and_repeated_upcasters_are_refused(handlers: Handlers) -> None:
    @handlers.event("a.created", schema_version=2)
    async def on_created(event: Event[Created], ctx: EventContext) -> None: ...

    for _ in range(2):
        handlers.upcaster("a.created", from_version=1)(render)
    (problem,) = handlers.build().problems
    assert "a second upcaster for ('a.created', 1)" in problem


def test_decorator_without_a_type_is_refused(handlers: Handlers) -> None:
    wrong: Any = handlers
    for decorator in (wrong.event, wrong.command):
        with pytest.raises(UsageError, match="Name the type"):
            decorator(render)


def test_unreadable_payload_type_is_refused(handlers: Handlers) -> None:
    class Opaque:
        pass

    async def handle(command: Any, ctx: CommandContext) -> None: ...

    handle.__annotations__["command"] = Opaque
    handlers.command("school.send")(handle)
    (problem,) = handlers.build().problems
    assert "its payload is not a type that pydantic can read" in problem


@pytest.mark.parametrize("declares", ["event", "command", "chunk", "topic", "schedule"])
def test_a_misspelt_option_is_refused_by_its_name(handlers: Handlers, declares: str) -> None:
    given: tuple[Any, ...] = ("a", "0 3 * * *", {}) if declares == "schedule" else ("a",)
    with pytest.raises(TypeError, match=rf"{declares}\(\) got an unexpected .*'tiemout'"):
        getattr(handlers, declares)(*given, tiemout="5s")
