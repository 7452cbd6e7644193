"""Points for purchases, refunds and bonuses: the balance is right only in the exact order.

Owns three events of one topic, and the event that follows from them. Promises: a user's events are
applied one after the other, in the order in which they were written, each once, while other users'
events are applied at the same time; a user who reaches gold gets one letter for it. That rests on
the topic's mode, and on one transaction that writes the balance, settles the event and emits the
next one.
Known limit: an event of a user without an account delays that user's later events; once it is a
dead letter, they wait until an operator acts.
"""

from collections.abc import Callable
from typing import ClassVar

from pydantic import BaseModel

from inboxd import Event, EventContext, Exponential, Handlers

# With this many points, a purchase earns twice as many points.
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
    """The amount that was paid or paid back, in whole units of money."""

    user_id: int
    amount: int


class Bonus(BaseModel):
    """A gift of points, in per cent of the balance."""

    user_id: int
    percent: int


class GoldReached(BaseModel):
    """A user has enough points for gold; emitted by this plugin."""

    inboxd_event: ClassVar[str] = "gold.reached"

    user_id: int


def after_purchase(points: int, amount: int) -> int:
    """A purchase by a gold user earns double points."""
    return points + (2 * amount if points >= GOLD else amount)


def after_refund(points: int, amount: int) -> int:
    """A refund takes at most the points that are left."""
    return max(0, points - amount)


def after_bonus(points: int, percent: int) -> int:
    """A bonus is rounded down to whole points."""
    return points + points * percent // 100


@handlers.event("purchase.completed", topic="rewards")
async def add_points(event: Event[Purchase], ctx: EventContext) -> None:
    await _apply(ctx, event.payload.user_id, lambda p: after_purchase(p, event.payload.amount))


@handlers.event("purchase.refunded", topic="rewards")
async def take_points(event: Event[Purchase], ctx: EventContext) -> None:
    await _apply(ctx, event.payload.user_id, lambda p: after_refund(p, event.payload.amount))


@handlers.event("bonus.granted", topic="rewards")
async def grant_bonus(event: Event[Bonus], ctx: EventContext) -> None:
    await _apply(ctx, event.payload.user_id, lambda p: after_bonus(p, event.payload.percent))


async def _apply(ctx: EventContext, user_id: int, change: Callable[[int], int]) -> None:
    points = await ctx.connection.fetchval(
        "SELECT points FROM rewards.accounts WHERE user_id = $1", user_id
    )
    if points is None:
        # The account may be about to open: retried before any later event of this user.
        raise LookupError(f"user {user_id} has no account")
    changed = change(points)
    await ctx.connection.execute(
        "UPDATE rewards.accounts SET points = $2, events = events + 1 WHERE user_id = $1",
        user_id,
        changed,
    )
    if points < GOLD <= changed:
        # Commits with the new balance, or not at all.
        ctx.emit(GoldReached(user_id=user_id))


@handlers.event("gold.reached", topic="letters")
async def congratulate(event: Event[GoldReached], ctx: EventContext) -> None:
    """In a topic of its own: any plugin may subscribe, and the balance does not wait for it."""
    await ctx.connection.execute(
        "INSERT INTO rewards.letters (user_id) VALUES ($1)", event.payload.user_id
    )
