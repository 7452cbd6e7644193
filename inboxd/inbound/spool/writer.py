"""Writes a page of receipts to the database, or to this process's spool.

Owns the choice. Promises: a receipt goes to the spool if its source has something in a spool of
this host, or if the database did not take it within its budget; what is answered from the spool is
synced, with its source marked; a page that the database did not answer for may be in both, under
one receipt id, which the database takes once. While the database is away, no request waits for it:
a probe looks whether it is back. A page that takes too long is spooled; the database counts as away
only if it does not answer the probe either.
Known limit: outcomes are not known before the drain: a duplicate has the answer of a new event.
*See:* `../group_commit.py`, before it; `gates.py`, `log.py`, `drain.py`, after it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from time import monotonic

import anyio
from anyio import to_thread

from inboxd.errors import NotDurable, SpoolBroken, SpoolFull
from inboxd.inbound.group_commit import Write
from inboxd.inbound.spool.boots import Stamps
from inboxd.inbound.spool.encoding import encode
from inboxd.inbound.spool.gates import Gates
from inboxd.inbound.spool.log import Appender
from inboxd.model.outcome import explain
from inboxd.model.receipt import Receipt
from inboxd.store.connections import is_away, is_refusal
from inboxd.store.receipts import Stored
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# Shares of `after` that it waits for gates: the drain holds them for no longer than one.
_GATES = 1.5
_PROBE = 0.5  # seconds between two looks at a database that is away
# Of `after`: when a page has waited for so long, the database is probed, so that the answer is
# there when the page is given up.
_DOUBT = 0.5

Probe = Callable[[], Awaitable[None]]


class SpoolingWriter:
    """The `write` of the group commit, with a spool behind it."""

    def __init__(
        self, write: Write, probe: Probe, log: Appender, path: Path, *, after: float
    ) -> None:
        """write: to the database. probe: asks it for something small, and raises if it is away.

        after: seconds that a page gets in the database before it is spooled. Raises OSError.
        """
        self._write_directly = write
        self._probe = probe
        self._after = after
        self._log = log
        self._stamps = Stamps(path)
        self._one = anyio.CapacityLimiter(1)
        self.gates = Gates(path)
        self.spooled = 0
        self.is_away = False
        """Whether the database is taken for away."""
        self._asked = anyio.Event()  # whether it is
        self._answered = 0.0  # when it last answered the probe

    async def write(self, page: Sequence[Receipt]) -> list[Stored | NotDurable]:
        """Make a page durable; NotDurable: those for which there is no room, or no disk.

        Raises what the database has against it.
        """
        ended: dict[int, Stored | NotDurable] = {}
        waits = self._waiting(page)
        direct = [n for n, each in enumerate(page) if each.source not in waits]
        ended.update(await self._directly(page, direct))
        refused = {page[n].source for n in direct if n not in ended}
        rest = [n for n in range(len(page)) if n not in ended]
        while rest:
            given = [page[n] for n in rest]
            try:
                left = await to_thread.run_sync(self._append, given, refused, limiter=self._one)
            except (SpoolFull, SpoolBroken, TimeoutError) as error:
                ended.update((n, NotDurable(str(error))) for n in rest)
                break
            ended.update((n, _spooled(page[n])) for n in rest if page[n].source not in left)
            # What is left was drained meanwhile: the database has all that came before.
            direct = [n for n in rest if page[n].source in left]
            ended.update(await self._directly(page, direct))
            refused |= {page[n].source for n in direct if n not in ended}
            rest = [n for n in rest if n not in ended]
        return [ended[n] for n in range(len(page))]

    async def leave_drained(self) -> None:
        """Give the disk back what is drained. Raises OSError."""
        await to_thread.run_sync(self._log.leave_drained, limiter=self._one)

    async def watch(self) -> None:
        """Probe the database when that is asked, and while it is away, until cancelled."""
        while True:
            await self._asked.wait()
            self._asked = anyio.Event()
            if not await self._answers() and self.is_away:
                self._ask()
                await anyio.sleep(_PROBE)

    async def _answers(self) -> bool:
        try:
            with anyio.fail_after(self._after):
                await self._probe()
        except Exception:  # noqa: BLE001 - whatever it is, the database is not back
            return False
        self._answered = monotonic()
        if self.is_away:
            self.is_away = False
            _log.info("the database is back: what was spooled is drained")
        return True

    def _waiting(self, page: Sequence[Receipt]) -> set[str]:
        """The sources of a page that are spooled."""
        sources = {receipt.source for receipt in page}
        if self.is_away:
            return sources
        return {source for source in sources if self.gates.is_marked(source)}

    async def _directly(self, page: Sequence[Receipt], places: list[int]) -> dict[int, Stored]:
        """What the database says to some; nothing: not in time, or what is not their fault."""
        if not places:
            return {}
        began = monotonic()
        doubt = asyncio.get_running_loop().call_later(_DOUBT * self._after, self._ask)
        try:
            with anyio.fail_after(self._after):
                answers = await self._write_directly([page[n] for n in places])
        except Exception as error:
            if is_refusal(error):
                raise
            self._not_taken(error, began)
            return {}
        finally:
            doubt.cancel()
        return dict(zip(places, answers, strict=True))

    def _ask(self) -> None:
        self._asked.set()

    def _not_taken(self, error: Exception, began: float) -> None:
        """Judge whether the database is away: not if only this page is too much for it."""
        if self.is_away:
            return
        answers = isinstance(error, TimeoutError) and self._answered > began
        self.is_away = is_away(error) and not answers
        reason = explain(error).error
        if self.is_away:
            _log.warning("the database takes no webhooks: they are spooled", reason=reason)
            self._ask()
        else:
            _log.warning(
                "the database does not take a page of webhooks: it is spooled", reason=reason
            )

    def _append(self, page: list[Receipt], refused: set[str]) -> set[str]:
        """In a thread: have them on the disk, but those whose source is not spooled any more.

        refused: sources of which the database did not take these. Returns those that are left.
        Raises SpoolFull, SpoolBroken, TimeoutError.
        """
        try:
            with self.gates.opened((each.source for each in page), _GATES * self._after):
                left = {receipt.source for receipt in page} - self._waiting(page) - refused
                mine = [receipt for receipt in page if receipt.source not in left]
                for source in {receipt.source for receipt in mine}:
                    self.gates.mark(source)
                if mine:
                    self._log.append([encode(self._stamps.make(), receipt) for receipt in mine])
                    self.spooled += len(mine)
        except TimeoutError:
            raise
        except OSError as error:  # of a mark or a gate
            raise self._log.failed("mark what it holds", error) from error
        return left


def _spooled(receipt: Receipt) -> Stored:
    return Stored(list(dict.fromkeys(event.event_id for event in receipt.events)), "spooled")
