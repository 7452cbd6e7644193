"""An order takes its pieces from the stock once, however often the order is delivered.

Owns two topics whose handlers do the same. `stock` declares which part of the payload is the dedup
key, so the second delivery is not stored at all. `careless` does not, and shows the consequence:
the stock goes down twice. Promises: the stock and the settlement of the event commit together, so a
crash does not count an order twice either.
Known limit: after `dedup_window` the same order counts as a new one.
"""

from pydantic import BaseModel

from inboxd import Event, EventContext, Handlers

handlers = Handlers("inventory")
# The order's id is in the payload; the bus gives each delivery another message id.
handlers.topic("stock", mode="single", dedup="/order_id", dedup_window="30d")
handlers.topic("careless", mode="single")

_TAKE = "UPDATE warehouse.{table} SET pieces = pieces - $2 WHERE article = $1"


class OrderCreated(BaseModel):
    """The payload of the event `order.created`."""

    order_id: str
    article: str
    pieces: int


@handlers.event("order.created", topic="stock")
async def take_from_stock(event: Event[OrderCreated], ctx: EventContext) -> None:
    """Take the ordered pieces from the stock."""
    order = event.payload
    await ctx.connection.execute(_TAKE.format(table="stock"), order.article, order.pieces)


@handlers.event("order.created", topic="careless")
async def take_carelessly(event: Event[OrderCreated], ctx: EventContext) -> None:
    """The counter-example: do the same in a topic without a dedup key."""
    order = event.payload
    await ctx.connection.execute(_TAKE.format(table="careless_stock"), order.article, order.pieces)
