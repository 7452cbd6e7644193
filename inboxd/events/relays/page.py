"""A page of a relay: events of leased buckets, published in the order of their lines, then settled.

The next event of a line is sent when the event before it is confirmed, unless the relay is
pipelined. Only confirmed events are settled, and only if all before them in their line are. No
transaction is open while a page is published; without its leases it settles nothing (promise 3).
Known limits: confirmed events that could not be settled are published again; a pipelined relay may
have sent events behind a refused one; an event that the database refuses only at the commit (a
deferred constraint) is not found. *See:* `relay`; `messages`; `inboxd/store/relays.py`.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

import anyio

from inboxd.brokers.contract import OutgoingMessage, Publisher
from inboxd.engine import row_log
from inboxd.engine.parts import Parts
from inboxd.engine.target_calls import TargetCall
from inboxd.errors import BrokerUnavailable, MessageRefused
from inboxd.events.page_order import PageOrder
from inboxd.events.relays.messages import RelayMessages
from inboxd.events.settling import EventSettling, PageResults, counted, ended_story
from inboxd.events.sources.bucket_claim import BucketClaim
from inboxd.model.outcome import Succeeded, explain
from inboxd.model.splitting import Pieces
from inboxd.registry.relays import breaker_of
from inboxd.settings import Relay
from inboxd.store import bodies, events, lines, relays
from inboxd.store.connections import is_refusal
from inboxd.store.relays import Fences
from inboxd.store.rows import ClaimedEvent
from inboxd.store.session import Session

# A page begins no more waves after this time: until its end no other worker can have its buckets.
_LONGEST_SECONDS = 1.0
# The indexes of a page's rows in one line, in their order.
_Line = deque[int]


class RelayPage:
    def __init__(
        self,
        parts: Parts,
        settling: EventSettling,
        name: str,
        relay: Relay,
        claim: BucketClaim,
        fences: Fences,
    ) -> None:
        """fences: those of the leases of the claim's buckets."""
        self.claim = claim
        self.rows: Sequence[ClaimedEvent] = ()
        self.results = PageResults(order=claim.order, unlocked=True, tells=row_log.logs_ends())
        self.lost: Exception | None = None
        self._parts = parts
        self._settling = settling
        self._name = name
        self._relay = relay
        self._breaker = breaker_of(relay.broker)
        self._fences = fences
        self._payloads: dict[int, str] = {}
        self._lines: dict[str | None, _Line] = {}
        self._answers: dict[int, Exception | None] = {}
        # Confirmed rows in the page's order, each with its seconds.
        self._confirmed: list[tuple[ClaimedEvent, float]] = []
        # Calls for the breaker: one for the page, or one per probe.
        self._calls: list[TargetCall] = []

    @property
    def met(self) -> int:
        return min((line[0] for line in self._lines.values()), default=len(self.rows))

    def lose(self, error: Exception) -> None:
        self.lost = error
        for call in self._begin_calls([0]):
            call.failed(error, None)

    async def read(self, session: Session) -> None:
        """Read the payloads that the claim left out, for as many rows as a page's bytes allow."""
        budget = self._settling.limits.page_bytes
        portion = next(bodies.portions(self.claim.rows, budget))
        self._payloads = await bodies.read(session, portion)
        self.rows = await bodies.complete(session, portion)
        for index, row in enumerate(self.rows):
            self._lines.setdefault(row["ordering_key"], deque()).append(index)

    async def publish(
        self, publisher: Publisher, make: RelayMessages, may_go_on: Callable[[], bool]
    ) -> None:
        """Until all is answered, or the page must stop. `lost`: any error but a refusal."""
        started = time.monotonic()
        version = self._parts.controls.version
        try:
            while may_go_on() and (wave := self._next_wave()):
                await self._send(publisher, make, wave, started)
                late = time.monotonic() - started > _LONGEST_SECONDS
                if self.lost or late or self._parts.controls.version != version:
                    break
            for call in () if self.lost else self._calls:
                call.succeeded()
        finally:
            breakers = self._parts.breakers
            for row in self.rows if breakers.held else ():
                breakers.release("topic", row["id"])

    async def settle(self, session: Session, *, apart: bool) -> None:
        """Raises LeaseLost. apart: halving finds refused events, which become dead letters."""
        await lines.hold(session, [*self._fences])
        await relays.free(session, self._parts.me.id, self._fences)
        if apart:
            await self._settle_apart(session)
        else:
            self.results.done = [(row["id"], seconds) for row, seconds in self._confirmed]
        await self._settling.write(session, self.results)

    def count(self) -> None:
        for row, seconds in self._confirmed:
            self.results.counts.append(counted(row, Succeeded(), seconds))
            self.results.stories += ended_story(row, seconds)
            if self.results.tells:
                self.results.told.append(partial(row_log.event_succeeded, row, seconds, 0))
        self._settling.count(self.results)

    # ------------------------------------------------------------------------------------ waves

    @property
    def _order(self) -> PageOrder:
        return self.claim.order

    def _next_wave(self) -> list[int]:
        """Rows to send now: the first of each line, or, if pipelined, all that can run."""
        wave: list[int] = []
        for line in self._lines.values():
            if not self._order.may_run(self.rows[line[0]]):
                line.popleft()
                self._stop(line)
                continue
            if self._relay.pipelined:
                for index in line:
                    if not self._order.can_run(self.rows[index]):
                        break
                    wave.append(index)
            else:
                wave.append(line[0])
        self._drop_empty()
        wave.sort()
        return wave

    async def _send(
        self, publisher: Publisher, make: RelayMessages, wave: list[int], started: float
    ) -> None:
        self._answers.clear()
        sent, messages = self._make(make, wave)
        if messages:
            self._calls = self._calls or self._begin_calls(sent)
            began = time.monotonic()
            try:
                await self._publish(publisher, messages, sent)
            except Exception as error:  # noqa: BLE001 - confirmed events are settled even so
                self.lost = error
                for call in self._calls:
                    call.failed(error, None)
            else:
                took = time.monotonic() - began
                self._parts.metrics.relays.confirmed(self._relay.broker, took)
        self._take_answers(time.monotonic() - started)

    def _make(
        self, make: RelayMessages, wave: Sequence[int]
    ) -> tuple[list[int], list[OutgoingMessage]]:
        """The messages of a wave; a row without a message is noted as refused."""
        sent: list[int] = []
        messages: list[OutgoingMessage] = []
        for index in wave:
            row = self.rows[index]
            raw = row["payload"] if row["body_id"] is None else self._payloads.get(row["body_id"])
            try:
                messages.append(make.of(row, "null" if raw is None else raw))
                sent.append(index)
            except MessageRefused as error:
                self._answers[index] = error
            except Exception as error:  # noqa: BLE001 - one event must not hold up the page
                why = f"no message can be made of it: {explain(error).error}"
                self._answers[index] = MessageRefused(why, for_good=True)
        return sent, messages

    def _begin_calls(self, sent: Sequence[int]) -> list[TargetCall]:
        """Begin calls for the breaker: one for all rows, or one per row while it is probed."""
        breakers = self._parts.breakers
        probes = sent if breakers.probing else sent[:1]
        holders = [("topic", self.rows[index]["id"]) for index in probes]
        return [TargetCall(breakers, self._breaker, holder) for holder in holders]

    async def _publish(
        self, publisher: Publisher, messages: Sequence[OutgoingMessage], sent: Sequence[int]
    ) -> None:
        """Publish within the relay's time limit. Raises BrokerUnavailable."""
        limit = self._relay.timeout.total_seconds()

        def tell(place: int, error: Exception | None) -> None:
            self._answers[sent[place]] = error

        with anyio.move_on_after(limit):
            await publisher.publish(messages, tell)
        unanswered = sum(index not in self._answers for index in sent)
        if unanswered:
            raise BrokerUnavailable(
                f"the broker {self._relay.broker!r} did not confirm {unanswered} of "
                f"{len(messages)} messages within {limit:g} s"
            )

    # --------------------------------------------------------------------------------- settling

    async def _settle_apart(self, session: Session) -> None:
        """Settle events, and fail those that cannot be settled. Raises errors of all events."""
        self.results.done = []
        me = self._parts.me.id
        pieces: Pieces[Sequence[tuple[ClaimedEvent, float]]] = Pieces(self._confirmed)
        for part in pieces:
            done = [(row["id"], seconds) for row, seconds in part]
            try:
                async with session.transaction():  # on a savepoint
                    await events.settle(session, done, me, all_of_them=False)
            except Exception as error:
                if not is_refusal(error):
                    raise
                if not pieces.halve(part):
                    self._give_up(part[0], error)

    def _give_up(self, confirmed: tuple[ClaimedEvent, float], error: Exception) -> None:
        """Turn a published event into a dead letter, since the database refuses to settle it."""
        self._confirmed = [each for each in self._confirmed if each is not confirmed]
        self._fail(
            confirmed[0],
            MessageRefused(
                f"it was published, but the database refuses to settle it: {explain(error).error}. "
                "Correct the cause, then dismiss the event: a replay publishes it again",
                for_good=True,
            ),
        )

    # ---------------------------------------------------------------------------------- answers

    def _take_answers(self, seconds: float) -> None:
        """Note the outcomes of each line's rows, up to the first row without an answer."""
        done = 0
        for line in self._lines.values():
            while line and line[0] in self._answers:
                row = self.rows[line[0]]
                error = self._answers[line.popleft()]
                if error is None:
                    self._confirmed.append((row, seconds))
                    done += 1
                else:
                    self._refuse(row, error)
                    if self._is_stopped(row):
                        self._stop(line)
        self._drop_empty()
        self._parts.metrics.relays.published(self._name, done)

    def _refuse(self, row: ClaimedEvent, error: Exception) -> None:
        self._fail(row, error)
        self._parts.metrics.relays.refused(
            self._name, unroutable=isinstance(error, MessageRefused) and error.unroutable
        )

    def _fail(self, row: ClaimedEvent, error: Exception) -> None:
        handlers = self._parts.registry.handlers_of(row["topic"], row["type"])
        outcome = self._settling.fail(error, row, handlers[0], self.results)
        self.results.counts.append(counted(row, outcome, 0.0))

    def _is_stopped(self, row: ClaimedEvent) -> bool:
        return (row["topic"], row["ordering_key"]) in self._order.lines

    def _stop(self, line: _Line) -> None:
        """Let the line stand still: its remaining events are lined up, also confirmed ones."""
        for index in line:
            self._order.stop(self.rows[index])
        line.clear()

    def _drop_empty(self) -> None:
        self._lines = {key: line for key, line in self._lines.items() if line}
