"""Points for purchases, refunds and bonuses: the balance comes out right only in the exact order.

Owns three events of one topic, and the one that they lead to. Promises: a user's events are applied
one after the other, in the order in which they were written, each once, although users are served
side by side; who reaches gold is sent one letter for it. That rests on the topic's mode, and on the
balance being written in the transaction that settles the event and emits what follows from it.
Known limit: an event of a user without an account keeps that user's later events waiting, at most
until it is a dead letter and somebody acts.
"""

from collections.abc import Callable
from typing import ClassVar

from pydantic import BaseModel

from inboxd import Event, EventContext, Exponential, Handlers

# From here on, a purchase is worth twice as many points.
GOLD = 1_000

handlers = Handlers("rewards")
handlers.topic(
    "rewards",
    mode="sequential",
    key="/user_id",
    on_failure="block",
    retry=Exponential(base="500ms", cap="1m", attempts=12),
)
handlers.topic("letters", mode="single")


class Purchase(BaseModel):
    """What was paid, or paid back, in whole units of money."""

    user_id: int
    amount: int


class Bonus(BaseModel):
    """A gift of so many per cent of the points that are there."""

    user_id: int
    percent: int


class GoldReached(BaseModel):
    """A user has so many points that purchases count twice; this plugin emits it."""

    inboxd_event: ClassVar[str] = "gold.reached"

    user_id: int


def after_purchase(points: int, amount: int) -> int:
    """Who has gold already gets twice as much."""
    return points + (2 * amount if points >= GOLD else amount)


def after_refund(points: int, amount: int) -> int:
    """Points that were spent meanwhile are not asked back."""
    return max(0, points - amount)


def after_bonus(points: int, percent: int) -> int:
    """Whole points only."""
    return points + points * percent // 100


@handlers.event("purchase.completed", topic="rewards")
async def add_points(event: Event[Purchase], ctx: EventContext) -> None:
    """Points for what was paid."""
    await _apply(ctx, event.payload.user_id, lambda p: after_purchase(p, event.payload.amount))


@handlers.event("purchase.refunded", topic="rewards")
async def take_points(event: Event[Purchase], ctx: EventContext) -> None:
    """No points for what was paid back."""
    await _apply(ctx, event.payload.user_id, lambda p: after_refund(p, event.payload.amount))


@handlers.event("bonus.granted", topic="rewards")
async def grant_bonus(event: Event[Bonus], ctx: EventContext) -> None:
    """More of what is there."""
    await _apply(ctx, event.payload.user_id, lambda p: after_bonus(p, event.payload.percent))


async def _apply(ctx: EventContext, user_id: int, change: Callable[[int], int]) -> None:
    points = await ctx.connection.fetchval(
        "SELECT points FROM rewards.accounts WHERE user_id = $1", user_id
    )
    if points is None:
        # Perhaps it is being opened: tried again, before anything else of this user.
        raise LookupError(f"user {user_id} has no account")
    changed = change(points)
    await ctx.connection.execute(
        "UPDATE rewards.accounts SET points = $2, events = events + 1 WHERE user_id = $1",
        user_id,
        changed,
    )
    if points < GOLD <= changed:
        # Written with the new balance, or not at all.
        ctx.emit(GoldReached(user_id=user_id))


@handlers.event("gold.reached", topic="letters")
async def congratulate(event: Event[GoldReached], ctx: EventContext) -> None:
    """A fact of its own: whoever wants to know subscribes, and the balance waits for nobody."""
    await ctx.connection.execute(
        "INSERT INTO rewards.letters (user_id) VALUES ($1)", event.payload.user_id
    )
