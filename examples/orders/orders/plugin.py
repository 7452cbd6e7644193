"""A user becomes suspect: their active orders are reviewed, and held if a payment looks wrong.

Owns one event and what follows from it. Promises: orders are looked up when the event is handled,
so those that were placed since are reviewed too; each order is reviewed in a transaction of its
own, and one that fails is tried again without the others; the review is closed once all are done.
That rests on the batch being written with the event's settlement. Known limit: an order that is
placed after the event was handled is not part of its review.
"""

from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel

from inboxd import CommandContext, Event, EventContext, Exponential, Handlers

Status = Literal["active", "suspect", "closed"]

handlers = Handlers("orders")
# Other consumers of the same event have topics of their own; a user's events need no order here.
handlers.topic("fraud", mode="single", retry=Exponential(base="2s", attempts=15))


class UserStatusUpdated(BaseModel):
    """What a user was, and is now (version 2)."""

    user_id: int
    previous: Status
    current: Status


class ReviewOrder(BaseModel):
    """Look at one order's payment."""

    order_id: int


class CloseReview(BaseModel):
    """Count what was held."""

    event_id: UUID
    user_id: int


@handlers.upcaster("user.status_updated", from_version=1)
def name_the_states(payload: dict[str, Any]) -> dict[str, Any]:
    """Version 1 had the same two states, in Portuguese and under other names."""
    known = {"ATIVO": "active", "SUSPEITO": "suspect", "ENCERRADO": "closed"}
    return {
        "user_id": payload["user"],
        "previous": known[payload["from"]],
        "current": known[payload["to"]],
    }


@handlers.event("user.status_updated", topic="fraud", schema_version=2)
async def review_user(event: Event[UserStatusUpdated], ctx: EventContext) -> None:
    """Review all active orders of a user who has just become suspect."""
    user = event.payload
    if user.current != "suspect" or user.previous == "suspect":
        return
    orders = await ctx.connection.fetch(
        "SELECT order_id FROM shop.orders WHERE user_id = $1 AND state = 'active' ORDER BY 1",
        user.user_id,
    )
    await ctx.connection.execute(
        "INSERT INTO shop.reviews (user_id, event_id, orders) VALUES ($1, $2, $3)",
        user.user_id,
        event.event_id,
        len(orders),
    )
    reviews = ctx.batch(
        [ReviewOrder(order_id=row["order_id"]) for row in orders],
        name=f"orders of user {user.user_id}",
    )
    reviews.then(CloseReview(event_id=event.event_id, user_id=user.user_id))


@handlers.command("orders.review_order", queue="reviews", timeout="30s")
async def review_order(command: ReviewOrder, ctx: CommandContext) -> str:
    """Hold the order if its card is from another country than the user."""
    order = await ctx.connection.fetchrow(
        "SELECT o.card_country, u.country FROM shop.orders o JOIN shop.users u USING (user_id) "
        "WHERE o.order_id = $1 AND o.state = 'active' FOR UPDATE OF o",
        command.order_id,
    )
    if order is None:
        return "gone"  # it was shipped or held meanwhile
    if order["card_country"] in (None, order["country"]):
        return "fine"
    reason = f"card from {order['card_country']}, user from {order['country']}"
    await ctx.connection.execute(
        "UPDATE shop.orders SET state = 'held', flagged = $2 WHERE order_id = $1",
        command.order_id,
        reason,
    )
    return "held"


@handlers.command("orders.close_review")
async def close_review(command: CloseReview, ctx: CommandContext) -> None:
    """Write down how many of the user's orders are held now."""
    await ctx.connection.execute(
        "UPDATE shop.reviews SET held = (SELECT count(*) FROM shop.orders o WHERE o.user_id = $2 "
        "AND o.state = 'held') WHERE event_id = $1",
        command.event_id,
        command.user_id,
    )
