"""Group commit: simultaneous requests share one write and one commit.

There is no timer: requests that arrive during a write form the next page. Promises: a `Stored`
result is durable; a page that fails or takes too long is halved until the failing receipt is
isolated; a request with many events has a page of its own; a write whose answer was lost is
repeated with the same receipt ids, so it stores nothing twice; after `within` seconds a request
gets NotDurable; a request whose client is gone is written. Known limits: a receipt may be stored in
spite of NotDurable, if the answer to its commit was lost; until a slow receipt is isolated, the
other receipts of its page wait; a spool limits that time.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TypeAlias

import anyio
from anyio.abc import TaskStatus

from inboxd.errors import NotDurable
from inboxd.inbound.sources import broken_instead
from inboxd.model.receipt import Receipt
from inboxd.model.splitting import Pieces
from inboxd.store.connections import is_late, is_passing, is_refusal
from inboxd.store.receipts import Stored
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# Seconds between two attempts to write.
_FIRST_PAUSE_SECONDS = 0.02
_LONGEST_PAUSE_SECONDS = 0.5
# Maximum bytes of bodies in a page.
_PAGE_BYTES = 8 << 20
# Number of events that the database writes in a fraction of the time that a request may wait.
PAGE_EVENTS = 2_000

Write: TypeAlias = Callable[[Sequence[Receipt]], Awaitable[Sequence[Stored]]]
# Like `Write`, with a spool behind it, which might have no room for some receipts.
WriteSome: TypeAlias = Callable[[Sequence[Receipt]], Awaitable[Sequence[Stored | NotDurable]]]
# Called with the outcome of a receipt.
Tell: TypeAlias = Callable[[Stored | NotDurable], None]

_STOPS = "the receiver stops"
_LATE = "the database did not answer in time"


def _ignore_written(_receipts: int, _seconds: float) -> None:
    pass


@dataclass(slots=True, eq=False)
class QueuedReceipt:
    """A receipt, the callback for its outcome, and its deadline (monotonic clock)."""

    receipt: Receipt
    tell: Tell
    until: float
    is_told: bool = False
    replaced: bool = False

    def end(self, outcome: Stored | NotDurable) -> None:
        """Report the outcome; repeated calls do nothing."""
        if self.is_told:
            return
        self.is_told = True
        try:
            self.tell(outcome)
        except Exception as error:  # noqa: BLE001 - the other receipts still get their outcomes
            _log.error("a webhook could not be answered", error=type(error).__name__)


class GroupCommit:
    """Writes receipts. Start `run` in a task group."""

    def __init__(
        self,
        write: WriteSome,
        *,
        on_written: Callable[[int, float], None] = _ignore_written,
        writers: int = 2,
        max_page: int = 500,
        most_waiting: int = 10_000,
        within: float = 5.0,
    ) -> None:
        """`within`: seconds from `submit` to NotDurable. on_written: size and seconds of a page.

        write: commits the whole page, or nothing, or returns NotDurable for receipts it did not
        write.
        """
        self._write = write
        self._on_written = on_written
        self._writers = writers
        self._max_page = max_page
        self._most_waiting = most_waiting
        self._within = within
        self._queue: deque[QueuedReceipt] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._pages: list[list[QueuedReceipt]] = []
        self._is_running = False

    @property
    def waiting(self) -> int:
        return len(self._queue) + sum(len(page) for page in self._pages)

    def submit(self, receipt: Receipt, tell: Tell) -> None:
        """`tell` is called once, with the outcome. Raises NotDurable, and then it is not called."""
        queue = self._queue
        if not self._is_running or len(queue) >= self._most_waiting:
            raise NotDurable("too many requests wait" if self._is_running else _STOPS)
        queue.append(QueuedReceipt(receipt, tell, monotonic() + self._within))
        if self._idle:
            self._wake()

    async def store(self, receipt: Receipt) -> Stored:
        """Return when the receipt is durable. Raises NotDurable."""
        answer: asyncio.Future[Stored | NotDurable] = asyncio.get_running_loop().create_future()

        def tell(outcome: Stored | NotDurable) -> None:
            if not answer.done():  # else the request was cancelled
                answer.set_result(outcome)

        self.submit(receipt, tell)
        outcome = await answer
        if isinstance(outcome, NotDurable):
            # A new error: the traceback of the old one would refer to this frame, and form a
            # reference cycle that holds the whole request.
            raise NotDurable(str(outcome))
        return outcome

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Write until cancelled; queued requests then get NotDurable."""
        self._is_running = True
        task_status.started()
        try:
            async with anyio.create_task_group() as group:
                for _ in range(self._writers):
                    group.start_soon(self._write_pages)
                group.start_soon(self._give_up_late)
        finally:
            self._is_running = False
            while self._queue:
                self._queue.popleft().end(NotDurable(_STOPS))

    def _wake(self) -> None:
        while self._idle:
            sleeper = self._idle.pop()
            if not sleeper.done():
                sleeper.set_result(None)
                return

    async def _write_pages(self) -> None:
        while True:
            if not self._queue:
                sleeper = asyncio.get_running_loop().create_future()
                self._idle.append(sleeper)
                await sleeper
            if page := self._take():
                self._pages.append(page)
                try:
                    await self._write_page(page)
                finally:
                    self._pages.remove(page)
                    for each in page:
                        each.end(NotDurable(_STOPS))

    def _take(self) -> list[QueuedReceipt]:
        page: list[QueuedReceipt] = []
        queue, size, events = self._queue, 0, 0
        while queue and len(page) < self._max_page and size < _PAGE_BYTES:
            events += len(queue[0].receipt.events)
            if page and events > PAGE_EVENTS:
                break
            each = queue.popleft()
            size += len(each.receipt.body)
            page.append(each)
        return page

    async def _write_page(self, page: Sequence[QueuedReceipt]) -> None:
        """Write a page, halved until the failing receipt is isolated. Slow receipts come last."""
        pieces = Pieces(page)
        for part in pieces:
            left = [each for each in part if not each.is_told]
            try:
                await self._insist(left, hurry=len(left) > 1 or pieces.more)
            except Exception as error:  # noqa: BLE001 - handled below
                if pieces.halve(left):
                    continue
                if is_late(error):
                    pieces.postpone(left)
                elif self._replace(left[0], error):
                    pieces.next(left)

    async def _insist(self, part: Sequence[QueuedReceipt], *, hurry: bool) -> None:
        """hurry: a timeout is raised: other receipts wait, or one receipt may be at fault."""
        pause = _FIRST_PAUSE_SECONDS
        while part:
            started = monotonic()
            try:
                ended = await self._write([each.receipt for each in part])
            except Exception as error:
                late = is_late(error)
                if (late and hurry) or not (late or is_passing(error)):
                    raise
                _log.warning("webhooks wait for the database", receipts=len(part), error=str(error))
            else:
                for each, one in zip(part, ended, strict=True):
                    each.end(one)
                if written := sum(isinstance(one, Stored) for one in ended):
                    self._on_written(written, monotonic() - started)
                return
            await anyio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            now = monotonic()
            part = [each for each in part if now < each.until and not each.is_told]

    def _replace(self, each: QueuedReceipt, error: Exception) -> bool:
        """Make a dead letter of a receipt that the database refuses; False: it cannot be made."""
        receipt = each.receipt
        instead = None
        if is_refusal(error) and not each.replaced:
            instead = broken_instead(receipt, f"the database refuses it: {type(error).__name__}")
        _log.error(
            "a webhook cannot be written" if instead is None else "a webhook is a dead letter",
            source=receipt.source,
            receipt_id=receipt.receipt_id,
            error=type(error).__name__,
        )
        if instead is None:
            each.end(NotDurable("the receipt cannot be written"))
            return False
        each.receipt, each.replaced = instead, True
        return True

    async def _give_up_late(self) -> None:
        """Answer requests that have waited too long; their unwritten receipts are dropped."""
        while True:
            await anyio.sleep(min(0.25, self._within / 10))
            now = monotonic()
            while self._queue and self._queue[0].until <= now:
                self._queue.popleft().end(NotDurable(_LATE))
            for page in self._pages:
                for each in page:
                    if each.until <= now:
                        each.end(NotDurable(_LATE))
