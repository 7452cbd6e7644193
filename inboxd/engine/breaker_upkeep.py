"""Shares breakers between workers: writes this worker's changes, and reads other changes.

A loop runs twice a second and at each notified change. A probe belongs to one worker. Known limit:
a probe for which no row waits here passes to others only when its time is over.
"""

import time
from uuid import UUID

from inboxd.engine.breakers import Breakers
from inboxd.resilience.breaker import Breaker, WrittenBreaker
from inboxd.store import breakers as store
from inboxd.store.outage import OUTAGE
from inboxd.store.pools import Pool, borrow
from inboxd.store.session import Session
from inboxd.telemetry.logs import get_logger
from inboxd.telemetry.metrics import Metrics

_log = get_logger(__name__)

_EVERY = 0.5
# Seconds for which the database reserves a probe; this worker stops using it a margin earlier.
_PROBE, _MARGIN = 10.0, 1.0
# Seconds for which other workers may take the next probe first, after a probe here had no result.
_OTHERS_TURN = 2.0


class BreakerUpkeep:
    def __init__(self, breakers: Breakers, pool: Pool, me: UUID, metrics: Metrics) -> None:
        self._breakers = breakers
        self._pool = pool
        self._me = me
        self._metrics = metrics
        self._reads = True
        # Time (monotonic) until which other workers may take the probe first, by breaker.
        self._rests: dict[str, float] = {}

    async def keep(self) -> None:
        while True:
            await self._breakers.wait(_EVERY)
            try:
                await self.turn()
                self._reads = True
            except Exception as error:  # noqa: BLE001 - the next turn must come
                if self._reads:
                    OUTAGE.warn(_log.warning, "breakers cannot be read", error)
                self._reads = False

    async def turn(self) -> None:
        if not self._breakers.by_name:
            return
        for name, breaker in self._breakers.by_name.items():
            if breaker.is_probing and breaker.tick(time.monotonic()) and breaker.unwritten is None:
                self._rests[name] = time.monotonic() + _OTHERS_TURN
        self._rests = {n: at for n, at in self._rests.items() if n in self._breakers.by_name}
        self._breakers.look()
        async with borrow(self._pool) as session:
            await self._declare(session)
            for breaker in list(self._breakers.by_name.values()):
                await self._write(session, breaker)
            known = await store.read(session, self._me)
            now = time.monotonic()
            for name, breaker in list(self._breakers.by_name.items()):
                shared = known.get(name)
                if shared is not None or breaker.version:
                    before = (breaker.mode, breaker.state)
                    breaker.learn(shared or WrittenBreaker(), now)
                    if before != (breaker.mode, breaker.state):
                        _log.info(
                            "breaker changed", breaker=name, state=breaker.state, mode=breaker.mode
                        )
            for breaker in list(self._breakers.by_name.values()):
                await self._probe(session, breaker)
        self._breakers.look()

    async def _declare(self, session: Session) -> None:
        uses = frozenset(self._breakers.undeclared)
        if uses:
            await store.declare(session, uses)
            self._breakers.undeclared -= uses

    async def _write(self, session: Session, breaker: Breaker) -> None:
        name, change = breaker.name, breaker.unwritten
        if change is None:
            return
        if change == "open":
            rest = max(0.0, breaker.until - time.monotonic())
            version = await store.open_(
                session, name, breaker.version, rest, breaker.opens, breaker.reason
            )
        else:
            rest = 0.0
            version = await store.close(session, name, breaker.version)
        if version is None or breaker.unwritten != change:
            return  # another worker was faster: the next reading finds its change
        breaker.written(version)
        self._report(breaker, change, rest)

    async def _probe(self, session: Session, breaker: Breaker) -> None:
        """Take the breaker's probe if it is due; renew a probe that is in use."""
        now, name = time.monotonic(), breaker.name
        if breaker.is_probing and breaker.in_use and breaker.probe_until - now < _PROBE / 2:
            if await store.keep_probe(session, name, breaker.version, self._me, _PROBE):
                breaker.keep_probe(now, _PROBE - _MARGIN)
        elif breaker.is_due(now) and now >= self._rests.get(name, 0.0):
            version = await store.take_probe(session, name, self._me, _PROBE)
            if version is not None:
                breaker.took_probe(version, now, _PROBE - _MARGIN)
                self._report(breaker, "half-open", 0.0)

    def _report(self, breaker: Breaker, to: str, rest: float) -> None:
        self._metrics.breaker_transitions.labels(breaker.name, to).inc()
        if to == "open":
            _log.warning(
                "breaker opens: rows that need it wait",
                breaker=breaker.name,
                seconds=round(rest, 1),
                breaks=breaker.opens,
                reason=breaker.reason,
            )
        elif to == "half-open":
            _log.info("breaker is probed", breaker=breaker.name, probes=breaker.rules.probes)
        else:
            _log.info("breaker closes", breaker=breaker.name)
