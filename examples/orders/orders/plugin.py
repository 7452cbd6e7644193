"""A user or a product becomes suspect, or is cleared: its open orders are reviewed.

Owns the events of two services, and the commands and events that follow from them. Promises: orders
are looked up when the event is handled, so a review includes the orders that were placed until
then; each order is reviewed in a transaction of its own, and a failed review is tried again without
the others; when all are done, the review is closed; a customer gets a notice of each change of an
order, in the order of the changes. Events may arrive in any order: the newest one sets the status,
and each review uses the state at its own time, so the last review leaves the order in the right
state. That rests on two rules: the batch is written with the event's settlement, and an order has
one review at a time.
Known limit: an order that is placed after the event was handled is not part of its review.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal
from uuid import UUID

from pydantic import BaseModel

from inboxd import CommandContext, Event, EventContext, Exponential, Handlers, Record

UserStatus = Literal["active", "suspect", "closed"]
ProductStatus = Literal["offered", "suspect", "withdrawn"]

handlers = Handlers("orders")
# One consumer of two sources. Other consumers of the same events have topics of their own.
handlers.topic("fraud", mode="single", retry=Exponential(base="2s", attempts=15))
# Sequential: no customer reads that an order is free before reading that it was held.
handlers.topic("customers", mode="sequential", key="/order_id")


class UserStatusUpdated(BaseModel):
    """A user's previous and current status (version 2)."""

    user_id: int
    previous: UserStatus
    current: UserStatus


class ProductStatusUpdated(BaseModel):
    """A product's previous and current status."""

    product_id: int
    previous: ProductStatus
    current: ProductStatus


class ReviewOrder(BaseModel):
    """Review one open order again."""

    order_id: int


class OrderStateChanged(BaseModel):
    """An order was held or freed: emitted by this plugin, for any subscriber."""

    inboxd_event: ClassVar[str] = "order.state_changed"

    order_id: int
    state: Literal["active", "held"]
    reason: str | None


class CloseReview(BaseModel):
    """Count the orders that are held."""

    event_id: UUID


@handlers.upcaster("user.status_updated", from_version=1)
def name_the_states(payload: dict[str, Any]) -> dict[str, Any]:
    """Version 1 has the same two states, in Portuguese and under other names."""
    known = {"ATIVO": "active", "SUSPEITO": "suspect", "ENCERRADO": "closed"}
    return {
        "user_id": payload["user"],
        "previous": known[payload["from"]],
        "current": known[payload["to"]],
    }


@handlers.event("user.status_updated", topic="fraud", schema_version=2)
async def on_user_status(event: Event[UserStatusUpdated], ctx: EventContext) -> None:
    """Review the user's open orders if the user becomes suspect or is cleared."""
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
    """Review the product's open orders if the product becomes suspect or is cleared."""
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
        # User and product may change at the same time: the key gives an order one review at a time.
        reviews.add(ReviewOrder(order_id=number), ordering_key=f"order {number}")
    reviews.then(CloseReview(event_id=event_id))


@handlers.command("orders.review_order", queue="reviews", timeout="30s")
async def review_order(command: ReviewOrder, ctx: CommandContext) -> str:
    """Hold the order while it has a reason to be held; otherwise free it."""
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
        return "gone"  # the order was shipped meanwhile
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
        return "unchanged"
    # The event commits with the change; its trace leads back to the event that began the review.
    ctx.emit(OrderStateChanged(order_id=command.order_id, state=state, reason=reason))
    return "held" if reason else "freed"


def find_reason(order: Record) -> str | None:
    """Why to hold an order: a suspect product, or a suspect user with a card of another country."""
    if order["product_suspect"]:
        return f"product {order['product_id']} is suspect"
    if order["user_suspect"] and order["card_country"] not in {None, order["country"]}:
        return f"card from {order['card_country']}, user from {order['country']}"
    return None


@handlers.command("orders.close_review")
async def close_review(command: CloseReview, ctx: CommandContext) -> None:
    """Write down how many of the orders are held."""
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
    """Write a notice, without the reason: customers must not learn it."""
    text = "is being checked" if event.payload.state == "held" else "is on its way again"
    await ctx.connection.execute(
        "INSERT INTO shop.notices (order_id, text) VALUES ($1, $2)",
        event.payload.order_id,
        f"Your order {event.payload.order_id} {text}.",
    )
