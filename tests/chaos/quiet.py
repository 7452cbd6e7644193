"""Checks after the faults: all rows drain, all workers rest, all exits and logs are explained.

Owns the waits, each with a bound, and the invariants of processes: which live, which died and why,
and the statistics of a calm time. `verdict` checks the tables.
"""

import re
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence

from tests.chaos.fleet import Service
from tests.chaos.schedule import Fault
from tests.chaos.verdict import BrokenPromise, show
from tests.support import Database, eventually
from tests.support.counted import COUNTED
from tests.support.rows import emit
from tests.support.verdicts import Kind

# Rows of dead workers run one at a time; retries back off up to a second; a lease or two end.
DRAIN = 120.0
REST = 30.0
_CALM = 200

# 69 and 75: the database was away at the start or later; 143: a second SIGTERM; -15: SIGTERM before
# the handlers were installed.
_EXPLAINED = (0, -signal.SIGKILL, -signal.SIGTERM, 69, 75, 143)
_OF_A_LEASE = ("pause", "isolate", "declare_dead")

_UNSETTLED = """
select 'event' as kind, id, type, status, attempts, crashes, run_at, now() as now,
       null as worker, errors -> -1 as last_error from inboxd.events
where status <> 'failed' or errors -> -1 ->> 'error' like '%until mended%'
union all
select 'command', id, type, status, attempts, crashes, run_at, now(),
       worker_id, errors -> -1 from inboxd.commands
where status <> 'failed' or errors -> -1 ->> 'error' like '%until mended%'
union all
select 'schedule', id, name, 'due', 0, 0, next_at, now(), null, null from inboxd.schedules
where next_at <= now()
"""
_LIVING = "select id, name, pid, state from inboxd.workers where state in ('running', 'draining')"
_RESTLESS = """
select (select last_value from inboxd.events_flag) as events_flag,
       (select last_value from inboxd.commands_flag) as commands_flag,
       (select count(*) from pg_locks where locktype = 'advisory') as advisory_locks
"""
_SESSIONS = """
select pid, application_name, state, query from pg_stat_activity
where datname = current_database() and application_name like 'inboxd %'
"""
_STATS = f"""
select type, outcome, after, sum(count) as count from {COUNTED}
where type in ('test.fan', 'test.noop') group by 1, 2, 3 order by 1
"""
_CRASHES = """
select kind, place, key, type, attempts, crashes, dead
from chaos_rows, (select count(*) as dead from inboxd.workers where state = 'dead') as deaths
where crashes > dead
"""
# No fault explains these words in a worker's log. A second SIGTERM may end a worker by force.
_ALARMS = re.compile(
    r'^(?!.*a second SIGTERM).*("level": ?"critical"|Traceback|never retrieved|never awaited'
    r"|command was lost|an outcome cannot be written)"
)


class Quiet:
    """The checks after the storm; `broken` lists the broken promises."""

    def __init__(self, database: Database, services: Mapping[str, Service]) -> None:
        self._database = database
        self._services = services
        self.broken: list[BrokenPromise] = []

    async def settle_down(self) -> None:
        """Wait until all rows drain and the workers rest."""
        await self._wait("all rows drain", self._unsettled, DRAIN)
        await self._wait("only the expected workers live", self._strangers, REST)
        await self._wait("flags are set, and no advisory lock is held", self._restless, REST)

    async def be_calm(self) -> None:
        """Without faults, statistics are exact."""
        await emit(self._database, _CALM, "test.fan", sends=1)
        await self._wait("the rows of the calm time drain", self._unsettled, REST)

    async def leave(self) -> None:
        """Stop all workers, and check that nothing is left behind."""
        for service in self._services.values():
            service.stopping = True
            service.signal(signal.SIGTERM)
        await self._wait("a worker ends with 0 when asked to", self._still_there, REST)
        await self._wait("no worker lives", self._living, REST)
        await self._wait("no session is left", lambda: self._rows(_SESSIONS), REST)
        rows = await self._database.fetch(_STATS)
        if [tuple(row.values())[1:] for row in rows] != [("succeeded", "", _CALM)] * 2:
            was_calm = all(each.kind != "late" for each in self.broken)
            kind: Kind = "violation" if was_calm else "late"
            self._is_broken("statistics of a calm time are exact", list(map(show, rows)), kind)

    async def look_back(self, faults: Sequence[Fault]) -> None:
        """Check exits, logs, deaths and crashes of the whole run."""
        for service in self._services.values():
            told: Counter[str] = Counter(
                fault.kind for fault in faults if fault.target == service.name
            )
            self._look_at_exits(service)
            self._look_at_logs(service)
            await self._look_at_deaths(service, told)
        await self._look_at_crashes()

    # ---------------------------------------------------------------------------------- waits

    async def _wait(
        self, promise: str, offending: Callable[[], Awaitable[list[str]]], within: float
    ) -> None:
        async def holds() -> bool:
            return not await offending()

        try:
            await eventually(holds, within)
        except AssertionError:
            self._is_broken(f"{promise} (within {within:g} s)", await offending(), "late")

    def _is_broken(self, promise: str, rows: Sequence[str], kind: Kind = "violation") -> None:
        self.broken.append(BrokenPromise(promise, tuple(rows), kind))

    async def _rows(self, query: str) -> list[str]:
        return [show(row) for row in await self._database.fetch(query)]

    async def _unsettled(self) -> list[str]:
        return await self._rows(_UNSETTLED)

    async def _living(self) -> list[str]:
        return await self._rows(_LIVING)

    async def _strangers(self) -> list[str]:
        living = await self._database.fetch(_LIVING)
        expected = {service.worker.process.pid for service in self._services.values()}
        odd = [show(row) for row in living if row["pid"] not in expected]
        return odd if len(living) == len(expected) else [*odd, f"{len(living)} live"]

    async def _restless(self) -> list[str]:
        [row] = await self._database.fetch(_RESTLESS)
        return [] if tuple(row) == (1, 1, 0) else [show(row)]

    async def _still_there(self) -> list[str]:
        return [
            f"{service.name}: {service.worker.process.poll()}"
            for service in self._services.values()
            if service.worker.process.poll() != 0
        ]

    # ------------------------------------------------------------------------------ looking back

    def _look_at_exits(self, service: Service) -> None:
        odd = [
            f"{code}: {' / '.join(log.read_text(errors='replace').splitlines()[-3:])}"
            for code, log in zip(service.exits, service.logs(), strict=False)
            if code not in _EXPLAINED
        ]
        if odd:
            self._is_broken(f"exit codes of {service.name} are explained", odd)
        if service.left:
            self._is_broken("no process outlives its worker", list(map(str, service.left)), "plain")

    def _look_at_logs(self, service: Service) -> None:
        alarms = [
            f"{log}: {line}"
            for log in service.logs()
            for line in log.read_text(errors="replace").splitlines()
            if _ALARMS.search(line)
        ]
        if alarms:
            self._is_broken("logs hold no alarm", alarms)

    async def _look_at_deaths(self, service: Service, told: Mapping[str, int]) -> None:
        """Only freezes and isolation beyond a lease, or a fault, explain deaths of a worker."""
        rows = await self._database.fetch(
            "select pid, count(*) - 1 as deaths, array_agg(ended_at order by started_at) as ended"
            " from inboxd.workers where name = $1 group by pid having count(*) > 1",
            service.name,
        )
        if sum(row["deaths"] for row in rows) > sum(told[kind] for kind in _OF_A_LEASE):
            # A machine that pauses for a lease looks like a death.
            promise = "no worker is declared dead within a lease"
            self._is_broken(promise, list(map(show, rows)), "plain")

    async def _look_at_crashes(self) -> None:
        """Each crash of a row is a worker's death: none is counted that did not happen."""
        rows = await self._database.fetch(_CRASHES)
        if rows:
            self._is_broken("no more crashes than deaths", list(map(show, rows)))
