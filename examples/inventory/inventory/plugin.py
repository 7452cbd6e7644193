"""An order takes its articles from the stock, once, however often the order is told.

Owns two topics whose handlers do the same. `stock` declares where the dedup key of an order is, so
the second telling is not even written. `careless` does not, and shows what becomes of it: the stock
goes down twice. Promises: the stock and the settlement of the event commit together, so a crash
between the two does not count twice either. Known limit: after `dedup_window` an order is a new
one.
"""

from pydantic import BaseModel

from inboxd import Event, EventContext, Handlers

handlers = Handlers("inventory")
# An order's id is in its payload; the bus that delivers it gives each delivery an id of its own.
handlers.topic("stock", mode="single", dedup="/order_id", dedup_window="30d")
handlers.topic("careless", mode="single")

_TAKE = "UPDATE warehouse.{table} SET pieces = pieces - $2 WHERE article = $1"


class OrderCreated(BaseModel):
    """What was ordered."""

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
    """Do the same in a topic without a dedup key: the counter-example."""
    order = event.payload
    await ctx.connection.execute(_TAKE.format(table="careless_stock"), order.article, order.pieces)
