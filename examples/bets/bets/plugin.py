"""Match results come in; the plugin settles selections and bets, and pays the winners.

Owns one event, the commands that follow from it, and three events for other services, which relays
may publish. Promises: the results of a match are handled one after the other, in the order of their
arrival, and the first final one counts; a result that the plugin cannot read, such as one with an
unknown status, becomes a dead letter and delays no other; a result after the final one becomes a
row of `betting.corrections`, and bets and payments stay as they are; if it contradicts the final
one, a command has a person look at it; a match is settled in pages, each a short transaction; each
bet is settled once, with its last selection or with the first lost one, and gets one notification
and, unless it is lost, one payment, whatever fails meanwhile. That rests on two rules. The commands
are written in the transaction that settles the bet. The bets of a page are locked, always in the
same order, *before* a later statement reads their other selections: when two matches end together,
the later transaction sees the outcome of the earlier one.
Known limit: the plugin takes no payment back; a person decides about a correction.
"""

from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from inboxd import CommandContext, Event, EventContext, Exponential, Handlers

# Selections that one transaction settles, in some tens of milliseconds.
PAGE = 1_000

handlers = Handlers("bets")
handlers.topic(
    "match-results",
    mode="sequential",
    key="/matchExternalId",
    # A result that cannot be read is visible as a dead letter; the next result of its match does
    # not wait for it.
    on_failure="skip",
    retry=Exponential(base="500ms", cap="1m", attempts=20),
)


def _upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


# The provider's document has upper case; lower case is accepted too.
Status = Annotated[Literal["LIVE", "FINISHED", "ABANDONED"], BeforeValidator(_upper)]


class MatchResult(BaseModel):
    """A message of the provider, which sends it once."""

    model_config = ConfigDict(alias_generator=to_camel)

    match_external_id: str
    home_score: int = Field(ge=0)
    away_score: int = Field(ge=0)
    status: Status
    provider_event_id: str


class SettleMatch(BaseModel):
    """Settle one page of the selections on a match whose result is final."""

    match_id: str


class ReviewCorrection(BaseModel):
    """Ask a person to look at a result that contradicts the final one."""

    match_id: str
    provider_event_id: str


class NotifyCustomer(BaseModel):
    """Tell a customer how a bet ended."""

    bet_id: int
    customer_id: int
    status: Literal["won", "lost", "refunded"]


class PayOut(BaseModel):
    """Pay winnings, or a stake back. `amount` is text in JSON, whose numbers are floats."""

    bet_id: int
    customer_id: int
    amount: Decimal


class ResultTaken(BaseModel):
    """For other services: the result of a match from now on, live or final."""

    inboxd_event: ClassVar[str] = "matches.result"

    match_id: str
    home_score: int
    away_score: int
    status: Status


class CustomerNotified(BaseModel):
    """For other services, such as one that sends text messages: how a bet ended."""

    inboxd_event: ClassVar[str] = "customers.notified"

    notification_id: UUID
    bet_id: int
    customer_id: int
    status: Literal["won", "lost", "refunded"]


class PaymentMade(BaseModel):
    """For other services: a customer was paid."""

    inboxd_event: ClassVar[str] = "payments.paid"

    payment_id: UUID
    bet_id: int
    customer_id: int
    amount: Decimal


@handlers.event("match.result", topic="match-results")
async def take_result(event: Event[MatchResult], ctx: EventContext) -> None:
    """Save the result and emit it; start the settlement if it is final. Record a correction."""
    result = event.payload
    values = (
        *(result.match_external_id, result.home_score, result.away_score),
        *(result.status, result.provider_event_id),
    )
    is_news = await ctx.connection.fetchval(
        """
        INSERT INTO betting.results AS r
               (match_id, home_score, away_score, status, provider_event_id)
        VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (match_id) DO UPDATE
           SET home_score = excluded.home_score, away_score = excluded.away_score,
               status = excluded.status, provider_event_id = excluded.provider_event_id,
               updated_at = clock_timestamp()
         WHERE r.status = 'LIVE'
        RETURNING true
        """,
        *values,
    )
    match = result.match_external_id
    if not is_news:
        verdict = await ctx.connection.fetchval(
            """
            INSERT INTO betting.corrections
                   (match_id, home_score, away_score, status, provider_event_id, verdict)
            SELECT $1::text, $2::integer, $3::integer, $4::text, $5::text,
                   CASE WHEN $4 = 'LIVE' THEN 'late'
                        WHEN (r.home_score, r.away_score, r.status) = ($2, $3, $4) THEN 'repeated'
                        ELSE 'refused' END
              FROM betting.results r WHERE r.match_id = $1
            RETURNING verdict
            """,
            *values,
        )
        if verdict == "refused":
            review = ReviewCorrection(match_id=match, provider_event_id=result.provider_event_id)
            ctx.send(review, ordering_key=match)
        return
    ctx.emit(
        ResultTaken(
            match_id=match,
            home_score=result.home_score,
            away_score=result.away_score,
            status=result.status,
        ),
        ordering_key=match,
    )
    if result.status != "LIVE":
        ctx.send(SettleMatch(match_id=match), ordering_key=match)


@handlers.command("bets.settle_match", queue="settlement", timeout="1m")
async def settle_match(command: SettleMatch, ctx: CommandContext) -> None:
    """Settle a page of selections and their bets; send a command for the next page."""
    match = command.match_id
    bets = await ctx.connection.fetch(
        """
        UPDATE betting.selections s
           SET status = CASE
               WHEN r.status = 'ABANDONED' THEN 'void'
               WHEN s.pick = CASE sign(r.home_score - r.away_score)
                             WHEN 1 THEN 'home' WHEN 0 THEN 'draw' ELSE 'away' END THEN 'won'
               ELSE 'lost' END
          FROM betting.results r,
               (SELECT bet_id FROM betting.selections
                 WHERE match_id = $1 AND status = 'pending' ORDER BY bet_id LIMIT $2) AS page
         WHERE r.match_id = $1 AND s.match_id = $1 AND s.bet_id = page.bet_id
        RETURNING s.bet_id
        """,
        match,
        PAGE,
    )
    if bets:
        await _settle_bets(ctx, sorted(row["bet_id"] for row in bets))
    if len(bets) == PAGE:
        ctx.send(SettleMatch(match_id=match), ordering_key=match)


async def _settle_bets(ctx: CommandContext, bets: list[int]) -> None:
    await ctx.connection.execute(
        "SELECT FROM betting.bets WHERE bet_id = ANY ($1) ORDER BY bet_id FOR UPDATE", bets
    )
    # A new statement sees what other transactions committed before they released these bets.
    settled = await ctx.connection.fetch(
        """
        UPDATE betting.bets b
           SET status = v.status, settled_at = clock_timestamp(),
               payout = CASE WHEN v.status <> 'lost' THEN round(b.stake * v.odds, 2) END
          FROM (SELECT s.bet_id,
                       CASE WHEN bool_or(s.status = 'lost') THEN 'lost'
                            WHEN bool_or(s.status = 'pending') THEN 'pending'
                            WHEN bool_or(s.status = 'won') THEN 'won'
                            ELSE 'refunded' END AS status,
                       betting.product(s.odds) FILTER (WHERE s.status = 'won') AS odds
                  FROM betting.selections s WHERE s.bet_id = ANY ($1) GROUP BY s.bet_id) AS v
         WHERE b.bet_id = v.bet_id AND b.status = 'pending' AND v.status <> 'pending'
        RETURNING b.bet_id, b.customer_id, b.status, b.payout
        """,
        bets,
    )
    for bet in settled:
        bet_id, customer_id = bet["bet_id"], bet["customer_id"]
        ctx.send(NotifyCustomer(bet_id=bet_id, customer_id=customer_id, status=bet["status"]))
        if bet["payout"] is not None:
            ctx.send(PayOut(bet_id=bet_id, customer_id=customer_id, amount=bet["payout"]))


@handlers.command("bets.notify_customer", queue="notifications")
async def notify_customer(command: NotifyCustomer, ctx: CommandContext) -> str:
    """The example returns the text and emits an event; a platform would send a message."""
    ctx.emit(
        CustomerNotified(notification_id=ctx.command_id, **command.model_dump()),
        ordering_key=str(command.bet_id),
    )
    return f"Customer {command.customer_id}: your bet {command.bet_id} is {command.status}."


@handlers.command("bets.review_correction", queue="reviews")
async def review_correction(command: ReviewCorrection, _ctx: CommandContext) -> str:
    """The example returns the text; a platform would open a ticket for a person."""
    return (
        f"Match {command.match_id}: result {command.provider_event_id} contradicts the result"
        " that settled its bets. See the table betting.corrections."
    )


@handlers.command("bets.pay_out", queue="payments", retry=Exponential(base="2s", attempts=25))
async def pay_out(command: PayOut, ctx: CommandContext) -> None:
    """The example writes a row; a platform would call a service, with the command's id as key."""
    await ctx.connection.execute(
        "INSERT INTO betting.payments (payment_id, bet_id, customer_id, amount)"
        " VALUES ($1, $2, $3, $4)",
        *(ctx.command_id, command.bet_id, command.customer_id, command.amount),
    )
    ctx.emit(
        PaymentMade(payment_id=ctx.command_id, **command.model_dump()),
        ordering_key=str(command.bet_id),
    )
