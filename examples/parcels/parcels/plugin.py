"""A paid order becomes a parcel: a carrier is asked over HTTP, and the shop is told by a webhook.

Owns what follows from `order.paid`. Promises: the carrier books one parcel for an order, however
often it is asked, since `http.request` asks under one Idempotency-Key; what it answered is written
with the event that tells of it. The plugin has no HTTP of its own: the target and the shops'
endpoints are settings and rows. Known limit: a carrier that answers 4xx refuses for good; whoever
mends the address sends the order anew.
"""

from typing import Any, ClassVar

from pydantic import BaseModel

from inboxd import CommandContext, Event, EventContext, Handlers, HttpRequest

handlers = Handlers("parcels")


class OrderPaid(BaseModel):
    """An order of a shop, which is the event's tenant."""

    order_id: int
    address: str


class NoteParcel(BaseModel):
    """Write down what the carrier answered."""

    order_id: int


class RefuseParcel(BaseModel):
    """Write down that the carrier takes no parcel to this address."""

    order_id: int


class ParcelBooked(BaseModel):
    """For shops: it is under way."""

    inboxd_event: ClassVar[str] = "parcel.booked"

    order_id: int
    number: str


class ParcelRefused(BaseModel):
    """For shops: it cannot be sent there."""

    inboxd_event: ClassVar[str] = "parcel.refused"

    order_id: int


class BookedByCarrier(BaseModel):
    """The body of the carrier's answer."""

    number: str


@handlers.event("order.paid")
async def book_parcel(event: Event[OrderPaid], ctx: EventContext) -> None:
    """Ask the carrier, then write down and tell what came of it."""
    order = event.payload
    await ctx.connection.execute(
        "INSERT INTO dispatch.parcels (order_id, address) VALUES ($1, $2) "
        "ON CONFLICT (order_id) DO NOTHING",
        order.order_id,
        order.address,
    )
    workflow = ctx.workflow(f"parcel of order {order.order_id}", type="parcel")
    book = workflow.step(
        "book",
        HttpRequest(
            target="carrier",
            method="PUT",
            path=f"/parcels/{order.order_id}",
            json={"to": order.address},
        ),
        queue="http.carrier",
    )
    workflow.step("note", NoteParcel(order_id=order.order_id), after=book)
    workflow.step("refuse", RefuseParcel(order_id=order.order_id), after=book.failed)


@handlers.command("parcels.note")
async def note_parcel(command: NoteParcel, ctx: CommandContext) -> None:
    """The number and the event that tells of it, in one transaction."""
    answer: dict[str, Any] = await ctx.result("book")
    number = BookedByCarrier.model_validate_json(answer["body"]).number
    await ctx.connection.execute(
        "UPDATE dispatch.parcels SET state = 'booked', number = $2 WHERE order_id = $1",
        command.order_id,
        number,
    )
    # An event, and a webhook for each endpoint of the shop that asks for events.
    ctx.emit(
        ParcelBooked(order_id=command.order_id, number=number),
        ordering_key=f"order {command.order_id}",
        entity_type="order",
        entity_id=str(command.order_id),
    )


@handlers.command("parcels.refuse")
async def refuse_parcel(command: RefuseParcel, ctx: CommandContext) -> None:
    """The shop has to ask its customer."""
    await ctx.connection.execute(
        "UPDATE dispatch.parcels SET state = 'refused' WHERE order_id = $1", command.order_id
    )
    ctx.emit(
        ParcelRefused(order_id=command.order_id),
        ordering_key=f"order {command.order_id}",
        entity_type="order",
        entity_id=str(command.order_id),
    )
