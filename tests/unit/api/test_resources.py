"""Resources: a function gets them at start, or is refused with their names and the remedy."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import pytest

from inboxd.api.chunks import EventChunk
from inboxd.api.context import BlockingCommandContext, CommandContext, EventContext
from inboxd.api.handlers import Handlers
from inboxd.api.hooks import FailedAttempt, WorkerInfo
from inboxd.api.messages import Event
from inboxd.api.middleware import Call, Proceed


class Client:
    pass


class Pool:
    pass


@pytest.fixture
def handlers() -> Handlers:
    return Handlers("shop")


def _only_problem(handlers: Handlers) -> str:
    (problem,) = handlers.build().problems
    return problem


async def client() -> AsyncIterator[Client]:
    yield Client()


def test_lifespan_is_read_from_its_annotations(handlers: Handlers) -> None:
    handlers.lifespan(client)

    @handlers.lifespan(timeout="2m")
    async def pool(client: Client) -> AsyncGenerator[Pool, None]:
        yield Pool()

    @handlers.lifespan
    def file() -> Iterator[bytes]:
        yield b""

    declared = handlers.build()
    assert not declared.problems
    assert [(each.yields, each.timeout, each.threaded) for each in declared.lifespans] == [
        (Client, 30, False),
        (Pool, 120, False),
        (bytes, 30, True),
    ]
    assert dict(declared.lifespans[1].needs) == {"client": Client}
    assert declared.lifespans[0].place.startswith(__file__)


def test_each_kind_of_function_may_take_resources(handlers: Handlers) -> None:
    handlers.lifespan(client)

    @handlers.event("a.b")
    async def event(event: Event[Any], ctx: EventContext, http: Client) -> None: ...

    @handlers.chunk("a.c", topic="batches")
    async def chunk(events: EventChunk[Any], ctx: EventContext, *, http: Client) -> None: ...

    @handlers.event("a.d", as_command=True)
    async def later(event: Event[Any], ctx: CommandContext, http: Client) -> None: ...

    @handlers.command("shop.threaded")
    def threaded(command: int, ctx: BlockingCommandContext, http: Client) -> None: ...

    @handlers.command("shop.plain")
    async def plain(command: int, ctx: CommandContext) -> None: ...

    @handlers.middleware
    async def around(call: Call, proceed: Proceed, http: Client) -> object:
        return await proceed()

    @handlers.on_start
    async def started(worker: WorkerInfo, http: Client) -> None: ...

    @handlers.on_error
    async def failed(attempt: FailedAttempt, http: Client) -> None: ...

    declared = handlers.build()
    assert not declared.problems
    http = {"http": Client}
    assert {each.type: dict(each.needs) for each in declared.events} == {
        "a.b": http,
        "a.c": http,
        "a.d": http,
    }
    assert {each.type: dict(each.needs) for each in declared.commands} == {
        "shop.later": http,
        "shop.threaded": http,
        "shop.plain": {},
    }
    (around_,) = declared.commands[0].middleware
    assert (around_.func, dict(around_.needs)) == (around, http)
    assert [(each.moment, dict(each.needs)) for each in declared.hooks] == [
        ("on_start", http),
        ("on_error", http),
    ]


def test_annotated_name_separates_two_resources_of_one_class(handlers: Handlers) -> None:
    @handlers.lifespan
    async def bank() -> AsyncIterator[Annotated[Client, "bank"]]:
        yield Client()

    @handlers.lifespan
    async def mail() -> AsyncIterator[Annotated[Client, "mail"]]:
        yield Client()

    @handlers.command("shop.pay")
    async def pay(command: int, ctx: CommandContext, http: Annotated[Client, "bank"]) -> None: ...

    declared = handlers.build()
    assert not declared.problems
    assert declared.commands[0].needs["http"] == declared.lifespans[0].yields


def test_missing_resource_is_refused_with_the_known_ones(handlers: Handlers) -> None:
    handlers.lifespan(client)

    @handlers.command("shop.pay")
    async def pay(command: int, ctx: CommandContext, pool: Pool) -> None: ...

    problem = _only_problem(handlers)
    assert problem.startswith(f"{__name__}.")
    assert f"pay ({__file__}:" in problem
    assert f"its parameter 'pool' is a {__name__}.Pool, and no lifespan of this plugin" in problem
    assert f"client ({__name__}.Client). Declare one (@handlers.lifespan)" in problem


def test_resources_are_a_plugin_s_own() -> None:
    one, other = Handlers("one"), Handlers("other")
    one.lifespan(client)

    @other.command("other.pay")
    async def pay(command: int, ctx: CommandContext, http: Client) -> None: ...

    assert "there are none before it" in _only_problem(other)


def test_lifespan_takes_only_resources_of_earlier_ones(handlers: Handlers) -> None:
    @handlers.lifespan
    async def pool(client: Client) -> AsyncIterator[Pool]:
        yield Pool()

    handlers.lifespan(client)
    assert "its parameter 'client'" in _only_problem(handlers)


def test_a_process_gets_no_resource(handlers: Handlers) -> None:
    handlers.lifespan(client)
    handlers.command("shop.render", executor="process")(render)  # type: ignore[type-var]
    problem = _only_problem(handlers)
    assert "nor a resource can go to another process: drop 'http', or the executor" in problem


def render(command: int, http: Client) -> int:
    return command


def test_unreadable_lifespans_are_refused(handlers: Handlers) -> None:
    @asynccontextmanager
    async def wrapped() -> AsyncIterator[Client]:
        yield Client()

    handlers.lifespan(wrapped)  # type: ignore[type-var]

    @handlers.lifespan  # type: ignore[type-var]
    async def returns() -> Client:
        return Client()

    @handlers.lifespan
    async def untyped():  # type: ignore[no-untyped-def]  # noqa: ANN202 - as an author may
        yield Client()

    @handlers.lifespan
    async def bare() -> AsyncIterator:  # type: ignore[type-arg]
        yield Client()

    handlers.lifespan(client)

    @handlers.lifespan
    async def again() -> AsyncIterator[Client]:
        yield Client()

    @handlers.lifespan(timeout="0s")
    async def hasty() -> AsyncIterator[Pool]:
        yield Pool()

    @handlers.lifespan
    async def many(*clients: Client) -> AsyncIterator[bytes]:
        yield b""

    # Functions with resources are not reported again: the known resources are incomplete.
    @handlers.command("shop.pay")
    async def pay(command: int, ctx: CommandContext, pool: Pool) -> None: ...

    told = [
        "without @asynccontextmanager, which inboxd adds",
        "a lifespan is a generator function",
        "says nothing of it: write -> AsyncIterator[TheType]",
        "write -> AsyncIterator[TheType]",
        "as tests",
        "timeout=0s",
        "its parameter '*clients: ",
    ]
    problems = handlers.build().problems
    assert len(problems) == len(told)
    for problem, part in zip(problems, told, strict=True):
        assert part in problem.replace(__name__, "tests"), problem


def test_uncallable_hooks_are_refused(handlers: Handlers) -> None:
    @handlers.on_start  # type: ignore[type-var]
    def sync(worker: WorkerInfo) -> None: ...

    @handlers.on_stop  # type: ignore[type-var]
    async def of_something_else(failed: FailedAttempt) -> None: ...

    @handlers.on_error  # type: ignore[type-var]
    async def of_nothing() -> None: ...

    @handlers.on_error
    async def wants(failed: FailedAttempt, http: Client) -> None: ...

    told = [
        "a hook must be `async def`",
        "annotate it WorkerInfo",
        "its first parameter is nothing: annotate it FailedAttempt",
        "its parameter 'http'",
    ]
    for problem, part in zip(handlers.build().problems, told, strict=True):
        assert part in problem, problem
