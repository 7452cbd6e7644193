"""Batches and workflows that a handler builds, and refusals before anything is written."""

from typing import Any, cast
from uuid import UUID, uuid4

import pytest
import structlog
from pydantic import BaseModel

from inboxd.api.connection import Connection
from inboxd.api.context import EventContext
from inboxd.api.groups import Plan
from inboxd.api.routes import Route
from inboxd.errors import PayloadError, UsageError
from inboxd.model.workflow import Condition
from tests.support.routes import Routed

ROW: dict[str, Any] = {"id": 7, "tenant": "acme", "correlation_id": "story", "attempts": 0}


class Mail(BaseModel):
    to: int = 0


class Seed(BaseModel):
    pass


def context() -> EventContext:
    return EventContext(
        ROW,
        lambda: cast("Connection", object()),
        Routed(
            lambda what: Route(what if isinstance(what, str) else f"school.{what.__name__.lower()}")
        ),
        structlog.get_logger(),
    )


@pytest.fixture
def ctx() -> EventContext:
    return context()


def plan(ctx: EventContext) -> Plan:
    made = ctx.plan()
    assert made is not None
    return made


def needs(ctx: EventContext) -> list[int]:
    return [draft.needs for draft in ctx.drafts]


def test_handler_without_a_batch_has_no_plan(ctx: EventContext) -> None:
    ctx.send(Mail())
    assert ctx.plan() is None
    assert (ctx.drafts[0].batch, ctx.drafts[0].needs, ctx.drafts[0].awaited) == (None, 0, False)


def test_batch_counts_its_members_and_members_name_their_batch(ctx: EventContext) -> None:
    batch = ctx.batch([Mail(to=1), Mail(to=2)], name="mails", queue="slow")
    batch.add(Mail(to=3), priority=4)
    ctx.send(Mail(to=4))
    made = plan(ctx)
    assert [(b.batch_id, b.name, b.kind, b.size, b.needs) for b in made.batches] == [
        (batch.id, "mails", "batch", 3, 0)
    ]
    assert [draft.batch for draft in ctx.drafts] == [batch.id] * 3 + [None]
    assert [draft.queue for draft in ctx.drafts] == ["slow", "slow", None, None]
    assert ctx.drafts[2].priority == 4
    assert made.edges == []


def test_continuations_wait_for_the_batch_and_are_no_members(ctx: EventContext) -> None:
    batch = ctx.batch([Mail()], tenant="b")
    assert batch.then(Mail()).otherwise(Mail()).finally_(Mail(), tenant="c").then(Seed()) is batch
    made = plan(ctx)
    assert made.batches[0].size == 1
    waiting = [draft.command_id for draft in ctx.drafts[1:]]
    conditions = ["succeeded", "failed", "finished", "succeeded"]
    assert made.edges == [
        (batch.id, waits, condition) for waits, condition in zip(waiting, conditions, strict=True)
    ]
    assert [draft.origin for draft in ctx.drafts] == [None] + [batch.id] * 4
    assert needs(ctx) == [0, 1, 1, 1, 1]
    assert [draft.tenant for draft in ctx.drafts] == ["b", "b", "b", "c", "b"]


def test_continuation_of_a_nested_batch_is_a_member_of_the_outer_one(ctx: EventContext) -> None:
    outer = ctx.batch(name="outer", tenant="b")
    inner = outer.batch([Mail()], name="inner").then(Seed())
    made = plan(ctx)
    assert [(b.name, b.parent, b.size, b.tenant) for b in made.batches] == [
        ("outer", None, 2, "b"),
        ("inner", outer.id, 1, "b"),
    ]
    assert [draft.batch for draft in ctx.drafts] == [inner.id, outer.id]
    assert needs(ctx) == [0, 1]


def test_an_open_batch_expires_and_may_be_closed_where_it_was_made(ctx: EventContext) -> None:
    first = ctx.batch(open=True)
    ctx.batch(open=True, expires="1h")
    ctx.add_to(first.id, [Mail()])
    ctx.close_batch(first.id)
    made = plan(ctx)
    assert [(b.expires, b.size) for b in made.batches] == [(None, 1), (3600.0, 0)]
    assert (made.added, made.closed) == ({}, [])


def test_a_batch_and_a_workflow_have_a_type_beside_their_name(ctx: EventContext) -> None:
    outer = ctx.batch(name="any text", batch_type="school.mails")
    outer.batch([Mail()], type="a.mail", batch_type="school.mail")
    ctx.workflow("seed", type="school.seed")
    ctx.workflow("plain")
    kinds = ["school.mails", "school.mail", "school.seed", None]
    assert [made.type for made in plan(ctx).batches] == kinds
    assert [draft.type for draft in ctx.drafts] == ["a.mail"], "of its commands"
    with pytest.raises(UsageError, match="a batch's type"):
        context().batch(batch_type="a" * 256)


def test_a_batch_made_elsewhere_is_filled_and_closed(ctx: EventContext) -> None:
    other = uuid4()
    sent = ctx.add_to(other, [Mail(to=1), Mail(to=2)], priority=3)
    ctx.close_batch(other)
    made = plan(ctx)
    assert (made.batches, made.added, made.closed) == ([], {other: 2}, [other])
    assert [(d.command_id, d.batch, d.priority) for d in ctx.drafts] == [
        (sent[0], other, 3),
        (sent[1], other, 3),
    ]


def test_a_closed_batch_takes_no_more_and_is_closed_once(ctx: EventContext) -> None:
    mine, other = ctx.batch(open=True, name="mine"), uuid4()
    for batch_id, named in ((mine.id, "'mine'"), (other, str(other))):
        ctx.close_batch(batch_id)
        with pytest.raises(UsageError, match=f"batch {named} is closed already"):
            ctx.close_batch(batch_id)
        with pytest.raises(UsageError, match=f"batch {named} is closed already"):
            ctx.add_to(batch_id, [Mail()])
    whole = ctx.batch([Mail()])
    with pytest.raises(UsageError, match=f"batch {whole.id} is closed already, or was never open"):
        ctx.close_batch(whole.id)
    assert (plan(ctx).closed, len(ctx.drafts)) == ([other], 1)


def test_wrong_lists_batch_ids_and_steps_are_refused_by_name(ctx: EventContext) -> None:
    wrong: Any = [Mail(), "mail", 3]
    for each in wrong:
        with pytest.raises(UsageError, match=r"takes a list of commands, not (Mail|str|int)"):
            ctx.batch(each)
        with pytest.raises(UsageError, match="takes a list of commands"):
            ctx.add_to(uuid4(), each)
    nothing: Any = "batch 3"
    for attempt in (lambda: ctx.add_to(nothing, []), lambda: ctx.close_batch(nothing)):
        with pytest.raises(UsageError, match="'batch 3' is not the id of a batch"):
            attempt()
    for after in (42, [42], {"a": 1}.items()):
        with pytest.raises(UsageError, match="step 'late' cannot wait for"):
            ctx.workflow().step("late", Seed(), after=cast("Any", after))


def test_steps_wait_for_the_named_steps(ctx: EventContext) -> None:
    workflow = ctx.workflow("seed")
    basic = workflow.step("basic", Seed(), queue="slow")
    users = workflow.step("users", Seed(), after=basic)
    workflow.step("repair", Seed(), after=[users.failed, "basic"])
    workflow.step("report", Seed(), after=["late", users.finished])
    late = workflow.step("late", Seed())
    made = plan(ctx)
    ids = {draft.command_id: step.name for draft, step in zip(ctx.drafts, made.steps, strict=True)}
    assert {(ids[e.needs], ids[e.waiting], str(e.condition)) for e in made.edges} == {
        ("basic", "users", "succeeded"),
        ("users", "repair", "failed"),
        ("basic", "repair", "succeeded"),
        ("late", "report", "succeeded"),
        ("users", "report", "finished"),
    }
    assert needs(ctx) == [0, 1, 2, 2, 0]
    assert [draft.awaited for draft in ctx.drafts] == [True, True, False, False, True]
    assert {draft.batch for draft in ctx.drafts} == {workflow.id}
    assert (made.batches[0].kind, made.batches[0].size) == ("workflow", 5)
    assert (late.name, ctx.drafts[0].queue) == ("late", "slow")


def test_members_of_a_waiting_batch_wait_with_it(ctx: EventContext) -> None:
    workflow = ctx.workflow()
    basic = workflow.step("basic", Seed())
    mails = workflow.batch("mails", [Mail()], after=basic).then(Seed())
    mails.batch([Mail()])
    workflow.step("end", Seed(), after=mails)
    workflow.then(Mail())
    made = plan(ctx)
    assert [(b.name, b.size, b.needs) for b in made.batches] == [
        (None, 4, 0),
        ("mails", 2, 1),
        (None, 1, 1),
    ]
    assert [b.awaited for b in made.batches] == [True, True, False]
    # basic, the first mail, the mails' continuation, the nested mail, end, the last continuation
    assert needs(ctx) == [0, 1, 1, 1, 1, 1]
    assert ctx.drafts[2].batch == workflow.id
    assert ctx.drafts[5].batch is None


def test_a_chain_is_named_by_its_classes(ctx: EventContext) -> None:
    workflow = ctx.workflow()
    first = workflow.step("first", Mail())
    steps = workflow.chain(Seed(), Mail(), Seed(), after=first, priority=2)
    assert [step.name for step in steps] == ["Seed", "Mail", "Seed 2"]
    made = plan(ctx)
    assert [(edge.needs, edge.waiting) for edge in made.edges] == [
        (first.id, steps[0].id),
        (steps[0].id, steps[1].id),
        (steps[1].id, steps[2].id),
    ]
    assert [draft.priority for draft in ctx.drafts] == [0, 2, 2, 2]


def test_a_step_may_wait_for_a_batch_beside_the_workflow(ctx: EventContext) -> None:
    beside = ctx.batch([Mail()])
    workflow = ctx.workflow()
    step = workflow.step("a", Seed(), after=beside.finished)
    assert plan(ctx).edges == [(beside.id, step.id, Condition.FINISHED)]


def test_a_circle_is_refused_when_the_handler_ends(ctx: EventContext) -> None:
    workflow = ctx.workflow()
    workflow.step("a", Seed(), after="b")
    workflow.step("b", Seed(), after="a")
    with pytest.raises(UsageError, match=r"circle: '[ab]' -> '[ab]' -> '[ab]'"):
        ctx.plan()


def test_an_unknown_step_is_refused_when_the_handler_ends(ctx: EventContext) -> None:
    ctx.workflow().step("a", Seed(), after="nowhere")
    with pytest.raises(UsageError, match="'a' waits for 'nowhere'"):
        ctx.plan()


def test_step_cannot_wait_for_parts_of_another_batch_or_workflow(ctx: EventContext) -> None:
    other, workflow = ctx.workflow(), ctx.workflow()
    of_other = other.step("a", Seed())
    inner = workflow.batch("mails", after="late").batch([Mail()])
    foreign = context().batch([Mail()])
    for after in (of_other, of_other.failed, inner, foreign):
        with pytest.raises(UsageError, match="'late' can wait for steps of its own"):
            workflow.step("late", Seed(), after=after)
    assert len(ctx.drafts) == 2


def test_a_step_that_cannot_be_sent_leaves_nothing(ctx: EventContext) -> None:
    workflow = ctx.workflow()
    with pytest.raises(PayloadError):
        workflow.step("a", {"x": float("nan")}, type="t")
    workflow.step("a", Seed())
    assert plan(ctx).batches[0].size == 1


@pytest.mark.parametrize("name", ["", "a\0", "ä" * 128])
def test_names_must_fit(ctx: EventContext, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be a batch's name: it has "):
        ctx.batch(name=name)
    with pytest.raises(UsageError, match="cannot be a step's name"):
        ctx.workflow().step(name, Seed())


def test_after_the_handler_nothing_can_be_added(ctx: EventContext) -> None:
    batch, workflow = ctx.batch(), ctx.workflow()
    ctx.close()
    attempts: list[Any] = [
        lambda: batch.add(Mail()),
        lambda: batch.then(Mail()),
        batch.batch,
        lambda: workflow.step("a", Seed()),
        lambda: workflow.then(Mail()),
        lambda: ctx.add_to(UUID(int=1), []),
        lambda: ctx.close_batch(UUID(int=1)),
    ]
    for attempt in attempts:
        with pytest.raises(UsageError, match="that made this batch or workflow has ended"):
            attempt()
    with pytest.raises(UsageError, match="has ended"):
        ctx.batch()
    fresh = context()
    fresh.close()
    with pytest.raises(UsageError, match="The handler has ended"):
        fresh.workflow()


def test_a_batch_is_true_however_empty(ctx: EventContext) -> None:
    batch = ctx.batch()
    assert batch
    assert len(batch) == 0
