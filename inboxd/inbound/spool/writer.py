"""Writes a page of receipts to the database, or to this process's spool.

Promises: a receipt is spooled if its source has receipts in a spool of this host, or if the
database did not take it in time; it is synced and its source marked before its request is answered.
If the database gave no answer, a page may be in both places, but each receipt id is accepted once.
During an outage no request waits for the database: a probe finds out when it is back. Known limit:
a duplicate is answered like a new event, since outcomes are unknown before the drain.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from time import monotonic

import anyio
from anyio import to_thread

from inboxd.errors import NotDurable, SpoolBroken, SpoolFull
from inboxd.inbound.group_commit import Write
from inboxd.inbound.spool.boot_ids import Stamps
from inboxd.inbound.spool.encoding import encode
from inboxd.inbound.spool.log import Appender
from inboxd.inbound.spool.markers import Gates
from inboxd.model.outcome import explain
from inboxd.model.receipt import Receipt
from inboxd.store.connections import is_away, is_refusal
from inboxd.store.receipts import Stored
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# The wait for gates, as a share of `after`: the drain closes them for one `after` at most.
_GATES_SHARE = 1.5
_PROBE_SECONDS = 0.5  # seconds between two probes of an unreachable database
# Share of `after` until a slow page causes a probe, so that the probe's answer comes before the
# page is abandoned.
_DOUBT_SHARE = 0.5

Probe = Callable[[], Awaitable[None]]


class SpoolingWriter:
    """The `write` of the group commit, with a spool behind it."""

    def __init__(
        self, write: Write, probe: Probe, log: Appender, path: Path, *, after: float
    ) -> None:
        """probe: raises in an outage. after: seconds until a page is spooled. Raises OSError."""
        self._write_directly = write
        self._probe = probe
        self._after = after
        self._log = log
        self._stamps = Stamps(path)
        self._one = anyio.CapacityLimiter(1)
        self.gates = Gates(path)
        self.spooled = 0
        # Whether the database counts as unreachable.
        self.is_away = False
        self._asked = anyio.Event()  # a probe is wanted
        self._answered = 0.0  # time of the last successful probe

    async def write(self, page: Sequence[Receipt]) -> list[Stored | NotDurable]:
        """NotDurable: no room, or the disk fails. Raises the database's error."""
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
            # These sources lost their marks: the database has all their earlier receipts.
            direct = [n for n in rest if page[n].source in left]
            ended.update(await self._directly(page, direct))
            refused |= {page[n].source for n in direct if n not in ended}
            rest = [n for n in rest if n not in ended]
        return [ended[n] for n in range(len(page))]

    async def leave_drained(self) -> None:
        await to_thread.run_sync(self._log.leave_drained, limiter=self._one)

    async def watch(self) -> None:
        """Probe the database on demand, and repeatedly in an outage, until cancelled."""
        while True:
            await self._asked.wait()
            self._asked = anyio.Event()
            if not await self._answers() and self.is_away:
                self._ask()
                await anyio.sleep(_PROBE_SECONDS)

    async def _answers(self) -> bool:
        try:
            with anyio.fail_after(self._after):
                await self._probe()
        except Exception:  # noqa: BLE001 - any error means that the database is not back
            return False
        self._answered = monotonic()
        if self.is_away:
            self.is_away = False
            _log.info("the database answers again: the drain of the spool begins")
        return True

    def _waiting(self, page: Sequence[Receipt]) -> set[str]:
        sources = {receipt.source for receipt in page}
        if self.is_away:
            return sources
        return {source for source in sources if self.gates.is_marked(source)}

    async def _directly(self, page: Sequence[Receipt], places: list[int]) -> dict[int, Stored]:
        """Write receipts to the database; {} if that failed. Raises the database's refusal."""
        if not places:
            return {}
        began = monotonic()
        doubt = asyncio.get_running_loop().call_later(_DOUBT_SHARE * self._after, self._ask)
        try:
            with anyio.fail_after(self._after):
                answers = await self._write_directly([page[n] for n in places])
        except Exception as error:
            if is_refusal(error):
                raise
            self._record_failure(error, began)
            return {}
        finally:
            doubt.cancel()
        return dict(zip(places, answers, strict=True))

    def _ask(self) -> None:
        self._asked.set()

    def _record_failure(self, error: Exception, began: float) -> None:
        if self.is_away:
            return
        answers = isinstance(error, TimeoutError) and self._answered > began
        self.is_away = is_away(error) and not answers
        reason = explain(error).error
        if self.is_away:
            _log.warning("the database does not accept webhooks: they are spooled", reason=reason)
            self._ask()
        else:
            _log.warning(
                "the database does not accept a page of webhooks: it is spooled", reason=reason
            )

    def _append(self, page: list[Receipt], refused: set[str]) -> set[str]:
        """Returns the other sources. Raises SpoolFull, SpoolBroken, TimeoutError."""
        try:
            with self.gates.opened((each.source for each in page), _GATES_SHARE * self._after):
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
            raise self._log.failed("mark its sources", error) from error
        return left


def _spooled(receipt: Receipt) -> Stored:
    return Stored(list(dict.fromkeys(event.event_id for event in receipt.events)), "spooled")
