"""Reports of progress, in a context and in tests without a daemon."""

import math
from typing import Any

import pytest
import structlog

from inboxd import BlockingCommandContext, CommandContext, Handlers
from inboxd.api.progress import Progress
from inboxd.api.routes import Route
from inboxd.errors import UsageError
from inboxd.testing import run_command
from tests.support.routes import Routed


def context(said: list[Any]) -> CommandContext:
    def lend() -> Any:
        raise NotImplementedError

    row = {"id": 7}
    return CommandContext(
        row,
        lend,
        Routed(lambda what: Route(str(what))),
        structlog.get_logger(),
        None,
        lambda *a: said.append(a),
    )


def test_reports_are_passed_on() -> None:
    said: list[Any] = []
    ctx = context(said)
    ctx.progress(3, 10, "pages")
    ctx.progress(0.5)
    ctx.progress(0, 0, "x" * 500)
    assert said == [
        ({"id": 7}, Progress(3, 10, "pages")),
        ({"id": 7}, Progress(0.5, None, None)),
        ({"id": 7}, Progress(0, 0, "x" * 200)),
    ]


@pytest.mark.parametrize(
    "wrong", [(-1,), (math.nan,), (math.inf,), (2**60,), (1, -2), (True,), ("3",), (1, 2, "a\0")]
)
def test_wrong_report_is_refused(wrong: tuple[Any, ...]) -> None:
    said: list[Any] = []
    with pytest.raises(UsageError, match=r"progress\("):
        context(said).progress(*wrong)
    assert said == []


def test_report_after_the_end_is_refused() -> None:
    said: list[Any] = []
    ctx = context(said)
    ctx.close()
    with pytest.raises(UsageError, match="has ended"):
        ctx.progress(1)
    assert said == []


@pytest.mark.anyio
async def test_run_command_returns_the_progress_whatever_the_outcome() -> None:
    handlers = Handlers("p")

    @handlers.command("p.loop")
    async def loop(command: dict[str, Any], ctx: CommandContext) -> None:
        ctx.progress(1, 2)
        ctx.progress(2, 2, "done")

    @handlers.command("p.thread")
    def thread(command: dict[str, Any], ctx: BlockingCommandContext) -> None:
        ctx.progress(1)
        raise ValueError

    assert (await run_command(handlers, "p.loop", {})).progress == (
        Progress(1, 2),
        Progress(2, 2, "done"),
    )
    assert (await run_command(handlers, "p.thread", {})).progress == (Progress(1),)
