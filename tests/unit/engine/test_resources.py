"""Lifespans open in order, close in reverse order, and end within a time limit."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator

import anyio
import pytest
from structlog.testing import capture_logs

from inboxd.api.context import CommandContext
from inboxd.api.handlers import Handlers
from inboxd.api.records import CommandHandler
from inboxd.api.resources import Lifespan
from inboxd.engine import resources as module
from inboxd.engine.resources import Resources, opened
from inboxd.errors import LifespanFailed, PluginError
from tests.support import eventually
from tests.support.waiting import patient

pytestmark = pytest.mark.anyio


class Client:
    """A resource of a lifespan."""

    def __init__(self, name: str = "real") -> None:
        self.name = name


@pytest.fixture
def handlers() -> Handlers:
    return Handlers("shop")


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing has a shorter time limit than a test."""
    monkeypatch.setattr(module, "_CLOSING", 0.1)
    monkeypatch.setattr(module, "_LEAST", 0.05)
    monkeypatch.setattr(module, "_PATIENCE", 0.1)


def _lifespans(handlers: Handlers) -> tuple[Lifespan, ...]:
    declared = handlers.build()
    assert not declared.problems
    return declared.lifespans


def _command(handlers: Handlers) -> CommandHandler:
    return handlers.build().commands[0]


def _noting(log: list[str], name: str) -> Callable[[], AsyncIterator[None]]:
    async def lifespan() -> AsyncIterator[None]:
        log.append(f"{name} opens")
        yield
        log.append(f"{name} closes")

    return lifespan


async def test_a_function_gets_the_resources_of_its_plugin(handlers: Handlers) -> None:
    closed: list[str] = []

    @handlers.lifespan
    async def client() -> AsyncIterator[Client]:
        yield Client()
        closed.append("client")

    @handlers.lifespan
    async def name(client: Client) -> AsyncIterator[str]:
        yield client.name
        closed.append("name")

    @handlers.command("shop.pay")
    async def pay(command: int, ctx: CommandContext, name: str, *, http: Client) -> str:
        return f"{name} {http.name} {command}"

    @handlers.command("shop.plain")
    async def plain(command: int, ctx: CommandContext) -> None: ...

    takes, takes_nothing = handlers.build().commands
    async with opened(_lifespans(handlers)) as resources:
        assert await resources.bound(takes)(7, None) == "real real 7"
        assert resources.bound(takes_nothing) is plain
        assert closed == []
    assert closed == ["name", "client"]


async def test_a_given_resource_is_not_opened(handlers: Handlers) -> None:
    log: list[str] = []

    @handlers.lifespan
    async def client() -> AsyncIterator[Client]:
        log.append("opened")
        yield Client()

    @handlers.lifespan
    async def name(client: Client) -> AsyncIterator[str]:
        yield client.name

    @handlers.command("shop.pay")
    async def pay(command: int, ctx: CommandContext, name: str) -> str:
        return name

    async with opened(_lifespans(handlers), {Client: Client("fake")}) as resources:
        assert await resources.bound(_command(handlers))(1, None) == "fake"
    assert log == []


async def test_the_error_of_a_lifespan_names_its_line_and_the_others_close(
    handlers: Handlers,
) -> None:
    log: list[str] = []
    handlers.lifespan(_noting(log, "first"))

    @handlers.lifespan
    async def bank() -> AsyncIterator[Client]:
        raise ConnectionError("postgresql://shop:s3cret@bank refused")
        yield Client()

    handlers.lifespan(_noting(log, "last"))
    with pytest.raises(LifespanFailed) as caught:
        async with opened(_lifespans(handlers)):
            log.append("never")
    assert log == ["first opens", "first closes"]
    said = str(caught.value)
    assert f"bank ({__file__}:" in said
    assert "of the plugin 'shop' failed when it opened: correct what it names" in said
    assert "ConnectionError: postgresql://shop:" in said
    assert "s3cret" not in said
    assert f", at {__file__}:" in said
    assert isinstance(caught.value.__cause__, ConnectionError)


@pytest.mark.parametrize("how", ["waits", "in a thread", "ignores its cancellation"])
async def test_a_lifespan_that_hangs_is_given_up(handlers: Handlers, hasty: None, how: str) -> None:
    log: list[str] = []
    handlers.lifespan(_noting(log, "first"))
    go_on, let_go = threading.Event(), anyio.Event()

    if how == "in a thread":

        @handlers.lifespan(timeout="50ms")
        def blocks() -> Iterator[Client]:
            go_on.wait(patient())
            yield Client()
    else:

        @handlers.lifespan(timeout="50ms")
        async def waits() -> AsyncIterator[Client]:
            while not let_go.is_set():
                try:
                    await let_go.wait()
                except asyncio.CancelledError:
                    if how == "waits":
                        raise
            yield Client()

    async with anyio.create_task_group() as tasks:
        resources = Resources(_lifespans(handlers))
        with pytest.raises(LifespanFailed, match=r"did not yield within 0\.05 s: see what it"):
            await resources.open(tasks)
        await resources.close()
        assert log == ["first opens", "first closes"]
        assert len(resources.left) == (how == "ignores its cancellation")
        let_go.set()
        go_on.set()


async def test_a_lifespan_that_never_yields_is_a_mistake(handlers: Handlers) -> None:
    @handlers.lifespan
    async def nothing() -> AsyncIterator[Client]:
        if threading.active_count() < 0:
            yield Client()

    with pytest.raises(PluginError, match="ended without a `yield`: it must yield its resource"):
        async with opened(_lifespans(handlers)):
            pass


@pytest.mark.parametrize("how", ["raises", "hangs", "yields again"])
async def test_closing_is_bounded_and_raises_nothing(
    handlers: Handlers, hasty: None, how: str
) -> None:
    log: list[str] = []
    handlers.lifespan(_noting(log, "first"))

    @handlers.lifespan
    async def ends_badly() -> AsyncIterator[Client]:
        yield Client()
        if how == "raises":
            raise OSError("the bank is gone")
        if how == "hangs":
            await anyio.sleep(3600)
        yield Client()

    with capture_logs() as lines:
        async with opened(_lifespans(handlers)):
            pass
    assert log == ["first opens", "first closes"]
    (line,) = [line for line in lines if line["log_level"] == "error"]
    assert line["lifespan"].endswith("ends_badly")
    told = {"raises": "the bank is gone", "yields again": "it yielded a second time"}
    assert told.get(how, "") in line.get("reason", "")
    assert (line["event"] == "a lifespan did not close in time") is (how == "hangs")


async def test_a_failed_background_task_of_a_lifespan_ends_the_worker(handlers: Handlers) -> None:
    log: list[str] = []
    handlers.lifespan(_noting(log, "first"))
    fail = anyio.Event()

    async def keep_alive() -> None:
        await fail.wait()
        raise OSError("the bank hung up")

    @handlers.lifespan
    async def bank() -> AsyncIterator[Client]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keep_alive)
            yield Client()

    async def rely() -> None:
        async with opened(_lifespans(handlers)):
            fail.set()
            await anyio.sleep(3600)

    with pytest.raises(LifespanFailed, match=r"while the worker ran.*the bank hung up"):
        await rely()
    assert log == ["first opens", "first closes"]


async def test_a_stop_while_lifespans_open_closes_the_open_ones(handlers: Handlers) -> None:
    log: list[str] = []
    handlers.lifespan(_noting(log, "first"))

    @handlers.lifespan
    async def waits() -> AsyncIterator[Client]:
        try:
            log.append("waits")
            await anyio.sleep(3600)
            yield Client()
        finally:
            log.append("gives up")

    async def stop() -> None:
        async def is_waiting() -> bool:
            return "waits" in log

        await eventually(is_waiting)
        opening.cancel()

    async with anyio.create_task_group() as tasks:
        resources = Resources(_lifespans(handlers))
        tasks.start_soon(stop)
        with anyio.CancelScope() as opening:
            await resources.open(tasks)
        await resources.close()
    assert log == ["first opens", "waits", "gives up", "first closes"]


async def test_a_sync_lifespan_has_one_thread_from_its_opening_to_its_end(
    handlers: Handlers,
) -> None:
    threads: list[threading.Thread] = []

    @handlers.lifespan
    def file() -> Iterator[Client]:
        threads.append(threading.current_thread())
        yield Client()
        threads.append(threading.current_thread())

    async with opened(_lifespans(handlers)):
        pass
    first, last = threads
    assert first is last is not threading.current_thread()
    assert first.daemon, "a lifespan that hangs does not keep the process alive"
