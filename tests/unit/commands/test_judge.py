"""The judge of commands: the end of a failed attempt, and of an outcome that was refused."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock
from uuid import uuid4

import pytest

from inboxd.commands.ended import CANCELLED, EndedCommand, Expired, Later
from inboxd.commands.judge import CommandJudge
from inboxd.commands.key_turns import KeyTurnDue
from inboxd.engine.execution import HandlerStopped
from inboxd.errors import Defer, HandlerTimeout, Reject, TooNew
from inboxd.registry.plugins import default_policy
from inboxd.settings import Settings
from inboxd.store.connections import VOID
from inboxd.store.settlements import EXPIRED, Requeue, Settlement
from inboxd.store.workers import WorkerIdentity

LIMIT = 3
LOST = ConnectionResetError("gone")


class Site:
    """A judge, and what it tells others."""

    def __init__(self, *, keeps_order: bool = True, wants_failures: bool = False) -> None:
        settings = Settings(
            database={"dsn": "postgresql:///x"},  # type: ignore[arg-type]
            worker={"crash_limit": LIMIT},  # type: ignore[arg-type]
        )
        self.parts: Any = MagicMock(settings=settings, policy=default_policy(settings))
        self.parts.fleet.differs = False
        self.parts.hooks.want_failures = wants_failures
        handler = SimpleNamespace(retry=None, func=lambda: None, plugin="p", name="h")
        self.parts.registry.commands = {"t": handler}
        self.parts.me = WorkerIdentity(uuid4(), "w", "host", 1, "1", (), (), (), "")
        admission: Any = SimpleNamespace(keeps_order=lambda _queue: keeps_order)
        self.judge = CommandJudge(self.parts, admission)

    def end_of(self, error: BaseException, own: Any = None, *, settling: bool = False) -> Any:
        own = own or _own()
        return self.judge.end_of(_row(), error, own, 0.1, settling=settling)


def _row(key: str | None = "k") -> Any:
    none = dict.fromkeys(("max_attempts", "tenant", "correlation_id"))
    names = {"type": "t", "queue": "q", "ordering_key": key, "command_id": uuid4()}
    return none | names | {"id": 1, "fence": 7, "age": 0.0, "attempts": 0}


def _own(
    *, closed: bool | None = None, starved: bool = False, idle: float = 0.0, void: bool = False
) -> Any:
    """A transaction of a handler; closed: whether its connection is, None: it has none."""
    held = None if closed is None else MagicMock()
    if held is not None:
        held.connection.is_closed.return_value = closed
    return SimpleNamespace(held=held, starved=starved, idle=idle, void=void)


@pytest.mark.parametrize(
    ("error", "unrun"),
    [
        (TooNew("written as version 2"), True),
        (Later("its payload could not be read"), True),
        (KeyTurnDue(2.0), True),
        (Defer(after=1), False),
    ],
)
def test_only_a_run_clears_a_suspect(error: Exception, unrun: bool) -> None:
    """In a rolling deploy, a worker that cannot read the payload must not clear it."""
    assert Site().end_of(error).outcome.unrun is unrun


def test_a_cancelled_command_is_settled_and_a_stopped_one_runs_again() -> None:
    cancelled = Site().end_of(HandlerStopped(CANCELLED))
    assert (cancelled.outcome.status, cancelled.counts, cancelled.seconds) == (
        *("cancelled", "cancelled"),
        0.1,
    )
    stopped = Site().end_of(HandlerStopped("the worker stops"))
    assert (stopped.outcome, stopped.counts) == (Requeue(1, "pending", fence=7), None)


def test_an_expired_command_ends_without_an_attempt() -> None:
    end = Site().end_of(Expired())
    assert (end.outcome, end.counts, end.failed) == (
        Settlement(1, 7, EXPIRED, 0.0, None),
        None,
        None,
    )


@pytest.mark.parametrize(
    "own",
    [_own(closed=True), _own(closed=False, void=True)],
    ids=["lost", "void"],
)
def test_losses_are_excused_below_the_limit(own: Any) -> None:
    site = Site()
    ends = [site.end_of(LOST, own) for _ in range(LIMIT)]
    assert [end.outcome.spent for end in ends] == [0, 0, 1]
    assert [end.counts for end in ends] == [None, None, "retried"]
    assert site.parts.handler_pool.prepare_anew.called is own.void


def test_a_settlement_that_fails_in_an_outage_is_excused_below_the_limit() -> None:
    site = Site()
    ends = [site.end_of(LOST, _own(closed=False), settling=True) for _ in range(LIMIT)]
    assert [end.outcome.spent for end in ends] == [0, 0, 1]
    refused = Site().end_of(ValueError("refused"), _own(closed=False), settling=True)
    assert refused.outcome.spent == 1
    site = Site()
    site.end_of(VOID[0](), _own(closed=False), settling=True)
    assert site.parts.handler_pool.prepare_anew.called


def test_a_command_without_a_connection_is_always_excused() -> None:
    site = Site()
    for _ in range(2 * LIMIT):
        assert site.end_of(LOST, _own(starved=True)).counts is None


def test_an_idle_transaction_that_the_server_ended_is_the_handlers_failure() -> None:
    site = Site(wants_failures=True)
    end = site.end_of(LOST, _own(closed=True, idle=1e6))
    assert end.outcome.spent == 1
    assert isinstance(end.failed.error, HandlerTimeout)


@pytest.mark.parametrize(("keeps_order", "status"), [(True, "pending"), (False, "waiting")])
@pytest.mark.parametrize(
    "error", [ValueError(), Later("x"), HandlerStopped("x")], ids=["failed", "later", "stopped"]
)
def test_keys_that_run_side_by_side_wait_in_their_line(
    keeps_order: bool, status: str, error: Exception
) -> None:
    site = Site(keeps_order=keeps_order)
    assert site.end_of(error).outcome.status == status
    if isinstance(error, ValueError):
        ended = EndedCommand(_row(), Settlement(1, 7, "succeeded", 0.1, None))
        assert site.judge.refused(ended, error).outcome.status == status


def test_a_refused_outcome_is_judged_as_a_failure_of_its_command() -> None:
    site = Site(wants_failures=True)
    ended = EndedCommand(
        *(_row(), Settlement(1, 7, "succeeded", 0.4, "{}")), counts="succeeded", seconds=0.4
    )
    again = site.judge.refused(ended, ValueError("no JSON"))
    assert (again.counts, again.seconds, again.end) == ("retried", 0.4, "unsuccessful")
    last = site.judge.refused(again, ValueError("no time"))
    assert (last.outcome.status, last.counts, last.seconds) == ("failed", "failed", 0.4)
    assert last.failed is not None
    assert last.failed.outcome == "dead", "hooks are told what is written"
    assert site.parts.metrics.tally.fail.call_count == 1, "the execution failed once"


def test_a_verdict_of_the_handler_is_a_dead_letter() -> None:
    end = Site().end_of(Reject("never"))
    assert (end.outcome.status, end.counts) == ("failed", "failed")
