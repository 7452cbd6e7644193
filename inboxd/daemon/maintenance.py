"""Maintenance tasks of a worker, beside the processing: reap, fold, send schedules, purge.

Known limit: for a moment two workers may both lead, so every task is safe if two run it.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from typing import NamedTuple

from inboxd.engine.parts import Parts
from inboxd.engine.wakeup import WakeUp
from inboxd.maintenance.batch_totals import add_up_batches
from inboxd.maintenance.bulk_actions import work_off_actions
from inboxd.maintenance.census import Census
from inboxd.maintenance.context import MaintenanceContext
from inboxd.maintenance.daily_statement import DailyStatement
from inboxd.maintenance.dedup import DedupPurger
from inboxd.maintenance.duplicates import DuplicateReport
from inboxd.maintenance.expiry import (
    expire_batches,
    expire_commands,
    expire_endpoints,
    expire_schedules,
    expire_topics,
)
from inboxd.maintenance.intakes import Intakes
from inboxd.maintenance.leader import Leadership
from inboxd.maintenance.notices import NoticeTask, close_notices
from inboxd.maintenance.partitions.creation import make_partitions
from inboxd.maintenance.partitions.indexing import make_indexes
from inboxd.maintenance.partitions.retention import Retention
from inboxd.maintenance.periodic import Run, sparingly
from inboxd.maintenance.purge import Purger
from inboxd.maintenance.reaper import Reaper
from inboxd.maintenance.receipts import release_held
from inboxd.maintenance.samples import Sampler, SampleReader
from inboxd.maintenance.schedules import send_schedules
from inboxd.maintenance.sessions import end_stalled_sessions
from inboxd.maintenance.sight import look
from inboxd.maintenance.statistics import roll_up_statistics, write_statistics
from inboxd.maintenance.unhandled.chunks import release_chunks_to_lanes
from inboxd.maintenance.unhandled.commands import fail_commands
from inboxd.maintenance.unhandled.events import EventChoice, settle_events
from inboxd.maintenance.unhandled.judgement import Judgement
from inboxd.maintenance.unhandled.lines import UnhandledLines
from inboxd.model.dedup import Windows
from inboxd.settings import Queue, WebhookSource
from inboxd.store.pools import borrow
from inboxd.store.wakeups import HotTable

# Checks of heartbeats per lease: a reaper must check more often than once per lease.
_LOOKS_PER_LEASE = 6
# Seconds between searches for waiting events of intakes, whose topics stand still until then.
_INTAKE = 0.5
# Seconds between searches for due bulk actions.
_ACTIONS = 1.0
# Seconds between searches for commands that have expired, and which no worker has claimed.
_EXPIRY = 1.0
# Seconds between searches for held receipts that may be released.
_HELD = 1.0
# Maximum seconds between two writes of a worker's counts, and between two searches for changes of
# batches or for duplicates.
_COUNTS = 5.0
# Maximum seconds between two roll-ups of all workers' counts.
_ROLL_UP = 30.0
# The tasks for unhandled rows that read tables from their beginning.
_SPARED = ("commands", "events")
# Seconds between searches for batches that no worker has folded.
_FOLD_SWEEP = 2.0


class MaintenanceTask(NamedTuple):
    """A task and its interval in seconds. sparing: it skips runs if they take long."""

    name: str
    interval: float
    run: Run
    sparing: bool = False


def maintenance_tasks(
    parts: Parts,
    flags: Mapping[HotTable, WakeUp],
    hold: Callable[[str, str | None], None],
    queues: Callable[[], Mapping[str, Queue]],
    webhooks: Callable[[], Mapping[str, WebhookSource]],
) -> Iterator[MaintenanceTask]:
    """hold: pauses and resumes claims, by task. queues, webhooks: current settings."""
    settings, worker = parts.settings, parts.settings.worker
    context = MaintenanceContext(parts.pool, parts.metrics, parts.me.id)
    lease, interval = worker.lease.total_seconds(), settings.maintenance.interval.total_seconds()
    reaper = Reaper(
        context,
        lease=lease,
        crash_limit=worker.crash_limit,
        on_returned=partial(_wake_all, flags),
    )
    sampling = settings.maintenance.sampling.total_seconds()
    ahead = settings.history.days_ahead
    leadership = Leadership(context)
    notify = settings.wakeups.mode != "off"
    intakes = Intakes(partial(borrow, parts.pool), notify=notify)
    task = MaintenanceTask
    of_each_worker = (
        task("reap", lease / _LOOKS_PER_LEASE, reaper.reap),
        task(
            "history",
            interval,
            partial(make_partitions, context, ahead, partial(hold, "history"), leadership.leads),
        ),
        task("sight", interval, partial(look, context, partial(hold, "sight"))),
        task("folds", _FOLD_SWEEP, parts.folder.sweep),
        task("intakes", _INTAKE, intakes.take),
        task("schedules", 1.0, partial(send_schedules, context, parts.me.schedules)),
        task("actions", _ACTIONS, partial(work_off_actions, context)),
        task("statistics", min(interval, _COUNTS), partial(write_statistics, context)),
        task("gauges", sampling / 2, SampleReader(context).show),
    )
    for each in of_each_worker:
        yield _noted(context, each)
    freed = partial(_wake_all, {"events": flags["events"]})
    for each in _of_the_leader(parts, context, leadership.leads, freed, intakes, queues, webhooks):
        noted = _noted(context, each)
        yield noted._replace(run=leadership.only(noted.run))


def _noted(context: MaintenanceContext, task: MaintenanceTask) -> MaintenanceTask:
    """Also the begin of the first run is noted: a task that always fails has an age."""
    noted = False

    async def run() -> None:
        nonlocal noted
        last = context.metrics.maintenance_success.labels(task.name)
        if not noted:
            last.set_to_current_time()
            noted = True
        await task.run()
        last.set_to_current_time()

    return task._replace(run=sparingly(run) if task.sparing else run)


def _of_the_leader(
    parts: Parts,
    context: MaintenanceContext,
    leads: Callable[[], Awaitable[bool]],
    freed: Callable[[], Awaitable[None]],
    intakes: Intakes,
    queues: Callable[[], Mapping[str, Queue]],
    webhooks: Callable[[], Mapping[str, WebhookSource]],
) -> Iterator[MaintenanceTask]:
    """leads: for long tasks. freed: notifies workers of events that may run now."""
    settings = parts.settings
    interval = settings.maintenance.interval.total_seconds()
    patience = settings.database.idle_in_transaction_timeout.total_seconds()
    task = MaintenanceTask
    end = partial(end_stalled_sessions, context, settings.database)
    yield task("stalled sessions", min(interval, patience / 2), end)
    grace = settings.worker.unhandled_grace
    often = min(interval, grace.total_seconds() / 3)
    for name, run in _of_the_unhandled(parts, context, grace, freed, intakes):
        yield task(f"unhandled {name}", often, run, sparing=name in _SPARED)
    yield task("expiry", _EXPIRY, partial(expire_commands, context), sparing=True)
    yield task("batches", interval, partial(expire_batches, context))
    yield task("undeclared schedules", interval, partial(expire_schedules, context))
    yield task("undeclared topics", interval, partial(expire_topics, context))
    yield task("undeclared endpoints", interval, partial(expire_endpoints, context))
    yield task("retention", interval, Retention(settings, parts.metrics, leads).let_go)
    yield task("census", interval, Census(context, leads).take)
    yield task("statement", interval, DailyStatement(context, leads).make)
    yield task("indexes", interval, partial(make_indexes, settings, leads))
    yield task("held receipts", _HELD, lambda: release_held(context, _held_by(webhooks())))
    roll_up = partial(roll_up_statistics, context)
    yield task("statistics roll-up", min(interval, _ROLL_UP), roll_up)
    yield task("batch totals", min(interval, _COUNTS), partial(add_up_batches, context))
    sampling = settings.maintenance.sampling
    topic = settings.notices.topic
    asked = settings.notices.backlog_rows if topic else None
    sampler = Sampler(context, settings.database, sampling, queues, asked)
    yield task("samples", sampling.total_seconds(), sampler.sample, sparing=True)
    tell = NoticeTask(context, settings, topic).tell if topic else partial(close_notices, context)
    yield task("notices", sampling.total_seconds(), tell)
    purger = Purger(context, settings.history, sampling)
    yield task("purge", interval, purger.purge)
    yield task("duplicates", min(interval, _COUNTS), DuplicateReport(context).report)
    sources = {name: source.window for name, source in settings.dedup.sources.items()}
    windows = Windows(settings.dedup.window, sources)
    yield task("dedup", 1.0, DedupPurger(context, windows).purge)


def _held_by(webhooks: Mapping[str, WebhookSource]) -> set[str]:
    return {name for name, source in webhooks.items() if source.paused == "hold"}


def _of_the_unhandled(
    parts: Parts,
    context: MaintenanceContext,
    grace: timedelta,
    freed: Callable[[], Awaitable[None]],
    intakes: Intakes,
) -> Iterator[tuple[str, Run]]:
    """The tasks for rows that no living worker handles; each measures its own grace."""
    judgement = partial(Judgement, context, grace, partial(_is_open, parts, intakes))
    choice = partial(EventChoice, of=parts.settings.unhandled)
    yield "commands", partial(fail_commands, judgement())
    yield "events", partial(settle_events, choice(judgement()))
    yield "lines", UnhandledLines(choice(judgement()), freed).settle
    yield "chunks", partial(release_chunks_to_lanes, judgement())


def _is_open(parts: Parts, intakes: Intakes, kind: str, lane: str, type_: str) -> bool:
    """Whether a lane is not paused, and no intake takes events from it or into it."""
    if kind == "topic" and intakes.holds(lane, type_):
        return False
    return parts.controls.allow(kind, lane, type_)


async def _wake_all(flags: Mapping[HotTable, WakeUp]) -> None:
    """Rows are claimable without an INSERT, or a dead worker left producers silent."""
    for wakeup in flags.values():
        wakeup.invalidate("timer")
        await wakeup.notify_peers()
