"""One incarnation of the worker: from joining to leaving, or to being declared dead.

It composes pools, lease, processors, listener and maintenance. After a stop nothing more is
claimed, commands that have not started are given back, running ones may finish until the deadline,
and nothing is left to reap (design section 5). Plugins are loaded once per process.
"""

import math
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

import anyio
from anyio.abc import TaskGroup

from inboxd.api.breakers import begin
from inboxd.api.topics import DEFAULT
from inboxd.commands.processing import CommandProcessing
from inboxd.daemon.declaring import WorkerDeclaration, declare
from inboxd.daemon.introduction import introduce, living_pids
from inboxd.daemon.maintenance import MaintenanceTask, maintenance_tasks
from inboxd.daemon.message_sources import MessageSources
from inboxd.engine.batch_folder import BatchFolder
from inboxd.engine.breaker_upkeep import BreakerUpkeep
from inboxd.engine.breakers import Breakers
from inboxd.engine.controls import Controls
from inboxd.engine.endpoints import Endpoints
from inboxd.engine.exclusive_run import ExclusiveRun
from inboxd.engine.execution import Executions
from inboxd.engine.fleet import Fleet
from inboxd.engine.hooks import Hooks
from inboxd.engine.lease import Lease
from inboxd.engine.listener import listen
from inboxd.engine.parts import Parts
from inboxd.engine.processor import Processor
from inboxd.engine.queues import Queues
from inboxd.engine.target_calls import HandlerCall
from inboxd.engine.wakeup import WakeUp
from inboxd.errors import InboxdError
from inboxd.events.processing import EventProcessing
from inboxd.maintenance.context import MaintenanceContext
from inboxd.maintenance.periodic import repeat
from inboxd.maintenance.statistics import write_statistics
from inboxd.model.backoff import Policy
from inboxd.model.outcome import explain
from inboxd.outbound.endpoints.book import DELIVER, book
from inboxd.registry.registry import Registry
from inboxd.registry.unknown_names import doubts
from inboxd.resilience.rules import BreakerRules
from inboxd.settings import Settings
from inboxd.store import (
    commands,
    migrations,
    names,
    plugin_migrations,
    row_security,
    wakeups,
    workers,
)
from inboxd.store.connections import explained
from inboxd.store.names import Names
from inboxd.store.plugin_folders import MigrationFolder
from inboxd.store.pools import Pool, borrow, lend, open_pool, transaction
from inboxd.store.session import Session
from inboxd.store.wakeups import Flag, HotTable
from inboxd.telemetry.logs import get_logger
from inboxd.telemetry.metrics import Metrics

_log = get_logger(__name__)

# Seconds that statements and short waits of a processor may take between two sleeps.
_LONGEST_TURN = 5.0
# Seconds at the end for folding the batches of the last settlements.
_LAST_FOLDS = 2.0
# Seconds at the end for writing the last successes of endpoints.
_LAST_NOTES = 2.0
_TABLES: tuple[HotTable, ...] = ("events", "commands")


class Incarnation:
    def __init__(
        self,
        settings: Settings,
        registry: Registry,
        policy: Policy,
        metrics: Metrics,
        executions: Executions,
        hooks: Hooks,
        folders: Sequence[MigrationFolder],
    ) -> None:
        """folders: the migrations that its plugins need."""
        self.settings = settings
        self.ready = False
        self.draining = False
        self._joined = False
        self._registry = registry
        self._policy = policy
        self._metrics = metrics
        queues = {type_: handler.queue for type_, handler in registry.commands.items()}
        topics = {DEFAULT, *registry.topics, *(topic for topic, _ in registry.subscriptions)}
        self._executions = executions
        self._hooks = hooks
        self._folders = folders
        self._fleet = Fleet()
        self._stop = anyio.Event()
        own = tuple(each.name for each in registry.to_send)
        metrics.tally.limit_tenants(settings.history.stats_tenants)
        metrics.declare(registry.events, queues, topics, own)
        metrics.relays.declare((name, settings.relays[name].broker) for name in registry.relays)
        self.me = introduce(settings, registry, own)
        self.processors: list[Processor] = []
        self._event_work: EventProcessing | None = None
        self._command_work: CommandProcessing | None = None
        self._pools: dict[str, Pool] = {}
        self._breakers = Breakers(registry, metrics, on_change=self._obey)
        self._controls = Controls(self._obey, self._breakers)
        self._queues = Queues(settings.all_queues, on_change=self._take_over_queues)
        self._breakers.need(self._queues.breakers)
        self._endpoints = Endpoints(metrics, self._queues, self._controls)
        self._folder: BatchFolder | None = None
        self._maintenance: list[MaintenanceTask] = []
        self._declared: Names = {}
        self._held_by: dict[str, str | None] = {}
        self.lease = Lease(
            settings,
            self.me,
            self._fleet,
            in_flight=self._in_flight,
            on_cancel=self._cancel,
            on_death=self._be_careful,
        )

    def stop(self) -> None:
        self._stop.set()

    def standing_still(self, processor: Processor) -> bool:
        """It waits for a server that does not answer; a long page does not count."""
        work = self._event_work
        if processor is self.processors[0] and work is not None and work.holds_up_the_loop:
            return False
        longest = self.settings.worker.poll_interval.total_seconds() + _LONGEST_TURN
        return time.monotonic() - processor.turned_at > longest

    @property
    def at_work(self) -> bool:
        """Whether rows are claimed, or must be written or folded."""
        parts = (self._event_work, self._command_work, self._folder)
        return any(part is not None and part.is_busy for part in parts)

    @property
    def done(self) -> tuple[int, ...]:
        """A number that changes when any work was done."""
        settled = 0 if self._command_work is None else self._command_work.outcomes.through
        folded = 0 if self._folder is None else self._folder.folded
        return (*(each.claimed for each in self.processors), settled, folded)

    def serves(self, kind: str, lane: str, type_: str) -> bool:
        """Whether it would run a row of this type in a lane of this topic or queue."""
        if kind == "command":
            handled = type_ in self._registry.commands
        else:
            handled = bool(self._registry.handlers_of(lane, type_))
        return handled and self._controls.allow(
            "queue" if kind == "command" else "topic", lane, type_
        )

    async def maintain(self, names: Collection[str]) -> None:
        """Run these maintenance tasks at once, and fold batches."""
        for task in self._maintenance:
            if task.name in names:
                await task.run()
        if self._folder is not None:
            self._folder.look()

    def doubt(self, settings: Settings, registry: Registry) -> None:
        for each in doubts(settings, registry, self._declared):
            _log.warning(
                "a setting names something that is not declared",
                setting=each.setting,
                found=each.found,
            )

    def reload(self, settings: Settings, breakers: Mapping[str, BreakerRules]) -> None:
        self.settings = settings
        self._breakers.reload(breakers)
        self._queues.reload(settings.all_queues)
        if self._event_work is not None:
            self._event_work.reload(settings.events)

    async def run(self, on_ready: Callable[[], None]) -> bool:
        """False: stopped; True: declared dead. Raises InboxdError for any other end."""
        async with self._open() as (pool, handler_pool):
            flags = self._flags(pool)
            parts = Parts(
                settings=self.settings,
                pool=pool,
                handler_pool=handler_pool,
                registry=self._registry,
                policy=self._policy,
                metrics=self._metrics,
                executions=self._executions,
                hooks=self._hooks,
                me=self.me,
                fleet=self._fleet,
                folder=BatchFolder(pool),
                controls=self._controls,
                breakers=self._breakers,
                queues=self._queues,
                endpoints=self._endpoints,
                exclusive_run=ExclusiveRun(
                    on_change=partial(flags["events"].wake, "timer"), on_rest=self._events_rest
                ),
            )
            limits = self._executions.limits
            begin.set(partial(HandlerCall, self._breakers, limits))
            book.set(self._endpoints.book)
            try:
                async with anyio.create_task_group() as tasks:
                    await self._live(parts, flags, tasks, on_ready)
                    tasks.cancel_scope.cancel()
            finally:
                self.ready = False
                await self._leave(pool)
        if not self._stop.is_set():
            # A task group mistakes a stray cancellation, which a handler may leave, for its own.
            raise InboxdError("the worker's tasks were cancelled, though it was not told to stop")
        return self.lease.dead

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[tuple[Pool, Pool]]:
        database = self.settings.database
        async with (
            open_pool(database, "daemon", database.pool_size) as pool,
            open_pool(database, "handlers", database.handler_pool_size, plans={}) as handlers,
        ):
            self._pools = {"daemon": pool, "handlers": handlers}
            yield pool, handlers

    async def _join(self, pool: Pool) -> bool:
        interval = self.settings.worker.heartbeat_interval
        async with borrow(pool) as session:
            await row_security.check(session)
            await migrations.check(session)
            await plugin_migrations.check(session, self._folders)
            await workers.join(session, self.me)
            self._joined = True
        declaration = WorkerDeclaration(self.settings, self._registry)
        async with lend(pool) as session:
            changed = await declare(session, partial(transaction, pool, session), declaration)
        for row in changed:
            _log.warning(
                "a topic has another mode now; what was written before keeps the old one",
                topic=row["name"],
                mode=row["mode"],
                was=row["was"],
            )
        async with borrow(pool) as session:
            self._declared = await names.declared(session) or {}
            self.doubt(self.settings, self._registry)
            if self.settings.wakeups.mode != "off":
                await wakeups.announce(session)
            return await workers.unclean_predecessors(session, self.me, living_pids(), interval)

    async def _live(
        self,
        parts: Parts,
        flags: Mapping[HotTable, WakeUp],
        tasks: TaskGroup,
        on_ready: Callable[[], None],
    ) -> None:
        event_work = self._event_work = EventProcessing(
            parts, tasks, partial(flags["events"].wake, "timer"), self.lease.holds
        )
        command_work = self._command_work = CommandProcessing(
            parts, tasks, partial(flags["commands"].wake, "timer")
        )
        self._folder = parts.folder
        sources = MessageSources(parts, tasks)
        delivers = DELIVER in self._registry.commands
        upkeep = BreakerUpkeep(parts.breakers, parts.pool, self.me.id, self._metrics)
        with explained(asked=parts.pool.where):
            if await self._join(parts.pool):
                event_work.be_careful()
            await parts.controls.read(parts.pool)
            if delivers:
                await parts.endpoints.turn(parts.pool)
            await upkeep.turn()
        self.processors = [
            Processor(event_work, flags["events"], self._metrics),
            Processor(command_work, flags["commands"], self._metrics),
        ]
        tasks.start_soon(self._keep_lease, list(flags.values()), event_work, command_work)
        tasks.start_soon(command_work.settler.run)
        tasks.start_soon(event_work.tend_relays)
        tasks.start_soon(repeat, "progress", 1.0, command_work.progress.write)
        self._show_paused()
        tasks.start_soon(parts.controls.keep, parts.pool)
        tasks.start_soon(upkeep.keep)
        if delivers:
            tasks.start_soon(parts.endpoints.keep, parts.pool)
        tasks.start_soon(parts.folder.run)
        if self.settings.wakeups.mode != "off":
            tasks.start_soon(listen, parts, flags, self.lease.beat_soon)
        else:
            self._metrics.listener_connected.set(math.nan)  # 0 would cause an alert
        self._maintenance = [
            *maintenance_tasks(
                parts,
                flags,
                self._hold,
                lambda: command_work.queues,
                lambda: self.settings.inbound.webhooks,
            )
        ]
        for task in self._maintenance:
            tasks.start_soon(repeat, task.name, task.interval, task.run)
        tasks.start_soon(repeat, "gauges", 1.0, self._show_gauges)
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as processing:
                for processor in self.processors:
                    processing.start_soon(processor.run)
                processing.start_soon(sources.run)
                self.ready = True
                on_ready()
                await self._stop.wait()
                self.draining = True
                self.lease.drain()
                drain = self.settings.worker.drain_timeout.total_seconds()
                scope.deadline = anyio.current_time() + drain
                sources.stop()
                event_work.stop()
                for processor in self.processors:
                    processor.stop()
        await command_work.drain(max(0.0, scope.deadline - anyio.current_time()))
        await self._finish(parts, delivers=delivers)

    async def _finish(self, parts: Parts, *, delivers: bool) -> None:
        """Fold and write the last results; other workers or the next start do what remains."""
        with anyio.move_on_after(_LAST_FOLDS):
            await parts.folder.finish()
        if delivers:
            with anyio.move_on_after(_LAST_NOTES):
                await parts.endpoints.finish(parts.pool)

    def _flags(self, pool: Pool) -> Mapping[HotTable, WakeUp]:
        mode = self.settings.wakeups.mode
        poll = self.settings.worker.poll_interval
        topics = (
            each for each in self._registry.topics.values() if self._registry.takes(each.name)
        )
        polls = (topic.poll_interval for topic in topics if topic.poll_interval is not None)
        longest = {"events": min([poll, *polls]), "commands": poll}
        return {
            table: WakeUp(
                table,
                pool,
                mode,
                longest[table].total_seconds(),
                self._fleet,
                self.lease.draw_attention,
            )
            for table in _TABLES
        }

    async def _keep_lease(
        self,
        flags: Sequence[WakeUp],
        events: EventProcessing,
        commands_: CommandProcessing,
    ) -> None:
        def suspend() -> None:
            events.suspend()
            commands_.suspend()

        def resume() -> None:
            events.resume()
            commands_.resume()

        await self.lease.run(flags, suspend, resume)
        _log.error("this worker was declared dead; it continues as a new one")
        suspend()
        self._stop.set()

    def _obey(self) -> None:
        """Apply changed controls or breakers: open lanes may have rows before their cursors."""
        self._show_paused()
        if self._command_work is not None:
            self._command_work.apply_controls()
        for processor in self.processors:
            processor.sweep()

    def _take_over_queues(self) -> None:
        self._breakers.need(self._queues.breakers)
        if self._command_work is not None:
            self._command_work.reload(self.settings.commands, self._queues.by_name)
            for processor in self.processors:  # a new or removed limit moves a queue's lanes
                processor.sweep()

    def _show_paused(self) -> None:
        for kind in ("type", "topic", "queue", "schedule", "source"):
            self._metrics.paused.labels(kind).set(len(self._controls.named(kind)))

    def _hold(self, task: str, reason: str | None) -> None:
        self._held_by[task] = reason
        reasons = "; ".join(each for each in self._held_by.values() if each is not None)
        for processor in self.processors:
            processor.hold(reasons or None)

    async def _show_gauges(self) -> None:
        self._metrics.lease_age.set(self.lease.age())
        self._breakers.show()
        self._endpoints.show()
        for kind, rows in self._in_flight().items():
            self._metrics.in_flight.labels(kind).set(rows)
        for name, pool in self._pools.items():
            self._metrics.pool_connections.labels(name, "idle").set(pool.idle)
            self._metrics.pool_connections.labels(name, "used").set(pool.used)

    def _in_flight(self) -> dict[str, int]:
        works = {"event": self._event_work, "command": self._command_work}
        return {kind: work.in_flight for kind, work in works.items() if work is not None}

    def _cancel(self, ids: frozenset[int]) -> None:
        if self._command_work is not None:
            self._command_work.cancel(ids)

    def _events_rest(self) -> None:
        if self._command_work is not None:
            self._command_work.events_rest()

    def _be_careful(self) -> None:
        if self._event_work is not None:
            self._event_work.be_careful()

    async def _leave(self, pool: Pool) -> None:
        """Give back held commands, and leave; without a database, the reaper does this."""
        if not self._joined:
            return
        with anyio.CancelScope(shield=True), anyio.move_on_after(5):
            try:
                context = MaintenanceContext(pool, self._metrics, self.me.id)
                await write_statistics(context, is_last=True)
                async with borrow(pool) as session:
                    released = await commands.release(session, self.me.id)
                    await workers.leave(session, self.me.id)
                    if self._event_work is not None:
                        await self._event_work.give_back()
                    await self._notify_all(session)
                if released:
                    _log.info("gave back commands", commands=released)
            except Exception as error:  # noqa: BLE001 - the worker leaves anyway
                _log.warning("the worker's end could not be recorded", reason=explain(error).error)

    async def _notify_all(self, session: Session) -> None:
        """Set the flags and notify, even if the processors could not: workers share these flags."""
        if self.settings.wakeups.mode != "off":
            for table in _TABLES:
                await wakeups.set_flag(session, table, Flag.NOTIFY)
                await wakeups.notify(session, table)
