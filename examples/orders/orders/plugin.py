"""A user or a product becomes suspect, or is no longer: the orders concerned are reviewed.

Owns the events of two services, and what follows from them. Promises: orders are looked up when the
event is handled, so those that were placed since are reviewed too; each order is reviewed in a
transaction of its own, and one that fails is tried again without the others; the review is closed
once all are done; a customer is told of each change of an order, one after the other. Events may
come in any order: the newest says what somebody is, and a review looks at what is known when it
runs, so the last one leaves the order as it should be. That rests on the batch being written with
the event's settlement, and on one review of an order at a time. Known limit: an order that is
placed after the event was handled is not part of its review.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal
from uuid import UUID

from pydantic import BaseModel

from inboxd import CommandContext, Event, EventContext, Exponential, Handlers, Record

UserStatus = Literal["active", "suspect", "closed"]
ProductStatus = Literal["offered", "suspect", "withdrawn"]

handlers = Handlers("orders")
# One consumer, two sources. Others of the same events have topics of their own.
handlers.topic("fraud", mode="single", retry=Exponential(base="2s", attempts=15))
# Nobody shall read that an order is free before reading that it was held.
handlers.topic("customers", mode="sequential", key="/order_id")


class UserStatusUpdated(BaseModel):
    """What a user was, and is now (version 2)."""

    user_id: int
    previous: UserStatus
    current: UserStatus


class ProductStatusUpdated(BaseModel):
    """What a product was, and is now."""

    product_id: int
    previous: ProductStatus
    current: ProductStatus


class ReviewOrder(BaseModel):
    """Look at one order."""

    order_id: int


class OrderStateChanged(BaseModel):
    """An order was held or freed; this plugin emits it, for whoever wants to know."""

    inboxd_event: ClassVar[str] = "order.state_changed"

    order_id: int
    state: Literal["active", "held"]
    reason: str | None


class CloseReview(BaseModel):
    """Count what is held."""

    event_id: UUID


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
async def on_user_status(event: Event[UserStatusUpdated], ctx: EventContext) -> None:
    """Review the user's open orders, if this changes whether the user is suspect."""
    user = event.payload
    orders = await ctx.connection.fetch(
        """
        WITH changed AS (
            UPDATE shop.users SET status = $2, status_at = $3
             WHERE user_id = $1 AND status_at <= $3 RETURNING user_id
        )
        SELECT order_id FROM shop.orders JOIN changed USING (user_id)
         WHERE state IN ('active', 'held') ORDER BY 1
        """,
        user.user_id,
        user.current,
        event.occurred_at,
    )
    if "suspect" in {user.previous, user.current} and user.previous != user.current:
        await _review(ctx, event.event_id, f"user {user.user_id}", orders)


@handlers.event("product.status_updated", topic="fraud")
async def on_product_status(event: Event[ProductStatusUpdated], ctx: EventContext) -> None:
    """Review the open orders of the product, if this changes whether it is suspect."""
    product = event.payload
    orders = await ctx.connection.fetch(
        """
        WITH changed AS (
            UPDATE shop.products SET status = $2, status_at = $3
             WHERE product_id = $1 AND status_at <= $3 RETURNING product_id
        )
        SELECT order_id FROM shop.orders JOIN changed USING (product_id)
         WHERE state IN ('active', 'held') ORDER BY 1
        """,
        product.product_id,
        product.current,
        event.occurred_at,
    )
    if "suspect" in {product.previous, product.current} and product.previous != product.current:
        await _review(ctx, event.event_id, f"product {product.product_id}", orders)


async def _review(ctx: EventContext, event_id: UUID, cause: str, orders: Sequence[Record]) -> None:
    await ctx.connection.execute(
        "INSERT INTO shop.reviews (event_id, cause, orders) VALUES ($1, $2, $3)",
        event_id,
        cause,
        len(orders),
    )
    reviews = ctx.batch(name=f"orders of {cause}")
    for row in orders:
        number = row["order_id"]
        # User and product may change at the same time: one review of an order after the other.
        reviews.add(ReviewOrder(order_id=number), ordering_key=f"order {number}")
    reviews.then(CloseReview(event_id=event_id))


@handlers.command("orders.review_order", queue="reviews", timeout="30s")
async def review_order(command: ReviewOrder, ctx: CommandContext) -> str:
    """Hold the order while there is a reason to, and free it when there is none any more."""
    order = await ctx.connection.fetchrow(
        """
        SELECT o.state, o.card_country, o.product_id, u.country,
               u.status = 'suspect' AS user_suspect, p.status = 'suspect' AS product_suspect
          FROM shop.orders o
          JOIN shop.users u USING (user_id)
          JOIN shop.products p USING (product_id)
         WHERE o.order_id = $1 AND o.state IN ('active', 'held')
        """,
        command.order_id,
    )
    if order is None:
        return "gone"  # it was shipped meanwhile
    reason = find_reason(order)
    state: Literal["active", "held"] = "held" if reason else "active"
    done = await ctx.connection.execute(
        "UPDATE shop.orders SET state = $2, flagged = $3 "
        "WHERE order_id = $1 AND state IN ('active', 'held')",
        command.order_id,
        state,
        reason,
    )
    if done == "UPDATE 0":
        return "gone"
    if state == order["state"]:
        return "as it was"
    # It commits with the change, and belongs to the story of the event that began the review.
    ctx.emit(OrderStateChanged(order_id=command.order_id, state=state, reason=reason))
    return "held" if reason else "freed"


def find_reason(order: Record) -> str | None:
    """Why an order is held: a suspect product, or a suspect user with a card from elsewhere."""
    if order["product_suspect"]:
        return f"product {order['product_id']} is suspect"
    if order["user_suspect"] and order["card_country"] not in {None, order["country"]}:
        return f"card from {order['card_country']}, user from {order['country']}"
    return None


@handlers.command("orders.close_review")
async def close_review(command: CloseReview, ctx: CommandContext) -> None:
    """Write down how many of the orders are held now."""
    await ctx.connection.execute(
        """
        UPDATE shop.reviews r
           SET held = (SELECT count(*) FROM shop.orders o
                        WHERE r.cause IN ('user ' || o.user_id, 'product ' || o.product_id)
                          AND o.state = 'held')
         WHERE event_id = $1
        """,
        command.event_id,
    )


@handlers.event("order.state_changed", topic="customers")
async def tell_customer(event: Event[OrderStateChanged], ctx: EventContext) -> None:
    """Leave a notice; why an order is held is not the customer's to know."""
    text = "is being checked" if event.payload.state == "held" else "is on its way again"
    await ctx.connection.execute(
        "INSERT INTO shop.notices (order_id, text) VALUES ($1, $2)",
        event.payload.order_id,
        f"Your order {event.payload.order_id} {text}.",
    )
