"""A paid order becomes a parcel, booked with a carrier over HTTP; the shop gets a webhook.

Owns what follows from `order.paid`. Promises: the carrier books one parcel for an order, however
often it is called, since `http.request` sends the same Idempotency-Key each time; the carrier's
answer is written in the transaction that emits the event about it. The plugin has no HTTP code of
its own: the target is a setting, and the endpoints of shops are rows.
Known limit: a 4xx of the carrier refuses the parcel for good; after a correction of the address the
order has to be sent again.
"""

from typing import Any, ClassVar

from pydantic import BaseModel

from inboxd import CommandContext, Event, EventContext, Handlers, HttpRequest

handlers = Handlers("parcels")


class OrderPaid(BaseModel):
    """A shop's order; the event's tenant is the shop."""

    order_id: int
    address: str


class NoteParcel(BaseModel):
    """Write down the carrier's answer."""

    order_id: int


class RefuseParcel(BaseModel):
    """Write down that the carrier refuses this address."""

    order_id: int


class ParcelBooked(BaseModel):
    """For shops: the parcel is booked, under this number."""

    inboxd_event: ClassVar[str] = "parcel.booked"

    order_id: int
    number: str


class ParcelRefused(BaseModel):
    """For shops: the carrier refuses the address."""

    inboxd_event: ClassVar[str] = "parcel.refused"

    order_id: int


class BookedByCarrier(BaseModel):
    """The body of the carrier's answer."""

    number: str


@handlers.event("order.paid")
async def book_parcel(event: Event[OrderPaid], ctx: EventContext) -> None:
    """Book with the carrier, then write down the outcome and emit an event."""
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
    """Write the number and emit the event in one transaction."""
    answer: dict[str, Any] = await ctx.result("book")
    number = BookedByCarrier.model_validate_json(answer["body"]).number
    await ctx.connection.execute(
        "UPDATE dispatch.parcels SET state = 'booked', number = $2 WHERE order_id = $1",
        command.order_id,
        number,
    )
    # This writes an event, and a webhook for each endpoint of the shop that asks for events.
    ctx.emit(
        ParcelBooked(order_id=command.order_id, number=number),
        ordering_key=f"order {command.order_id}",
        entity_type="order",
        entity_id=str(command.order_id),
    )


@handlers.command("parcels.refuse")
async def refuse_parcel(command: RefuseParcel, ctx: CommandContext) -> None:
    """Write the refusal and emit the event: the shop has to ask its customer for the address."""
    await ctx.connection.execute(
        "UPDATE dispatch.parcels SET state = 'refused' WHERE order_id = $1", command.order_id
    )
    ctx.emit(
        ParcelRefused(order_id=command.order_id),
        ordering_key=f"order {command.order_id}",
        entity_type="order",
        entity_id=str(command.order_id),
    )
