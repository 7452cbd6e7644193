"""What a worker does besides claiming, every so often: reap, fold, send schedules, keep the books.

Owns the two lists of duties, with their intervals: what every worker does, and what the leader does
for all (`maintenance.leader`). Promises that each goes on whatever becomes of one of its turns
(`maintenance.duty`). Known limit: two workers may take themselves for the leader for a moment, so
the statements of every duty see to it that two do not harm each other.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial

from inboxd.engine.parts import Parts
from inboxd.engine.wakeup import WakeUp
from inboxd.maintenance.dedup import Forgetting, Telling
from inboxd.maintenance.duty import sparingly
from inboxd.maintenance.intakes import Intakes
from inboxd.maintenance.leader import Leadership
from inboxd.maintenance.open_batches import Abandoned
from inboxd.maintenance.partitions.creation import History
from inboxd.maintenance.partitions.retention import Retention
from inboxd.maintenance.purge import Purge
from inboxd.maintenance.reaper import Reaper
from inboxd.maintenance.schedules import Schedules, Undeclared
from inboxd.maintenance.sessions import StalledSessions
from inboxd.maintenance.statistics import Statistics
from inboxd.maintenance.undeclared_topics import Topics
from inboxd.maintenance.unhandled_events import Choice, UnhandledEvents
from inboxd.maintenance.unhandled_lines import UnhandledLines
from inboxd.maintenance.unhandled_lists import UnhandledLists
from inboxd.maintenance.unserved_commands import UnservedCommands
from inboxd.model.dedup import Windows
from inboxd.settings import Queue
from inboxd.store.pools import borrow
from inboxd.store.wakeups import Place

# What a reaper looks at must be looked at more often than the lease is long.
_LOOKS_PER_LEASE = 6
# Seconds between looks for what waits for a declaration: its topics stand still meanwhile.
_INTAKE = 0.5
# Seconds between looks for what nobody has folded.
_FOLD_SWEEP = 2.0

Duty = tuple[str, float, Callable[[], Awaitable[None]]]


def duties(
    parts: Parts,
    flags: Mapping[Place, WakeUp],
    hold: Callable[[str | None], None],
    queues: Callable[[], Mapping[str, Queue]],
) -> Iterator[Duty]:
    """Each duty: its name, its interval in seconds, its turn.

    `hold` stops and resumes claims; `queues`: the settings of queues as they are by now.
    """
    settings, pool, sql, metrics, me = (
        parts.settings,
        parts.pool,
        parts.sql,
        parts.metrics,
        parts.me,
    )
    worker, maintenance = settings.worker, settings.maintenance
    lease, interval = worker.lease.total_seconds(), maintenance.interval.total_seconds()
    reaper = Reaper(
        pool,
        sql,
        metrics,
        me.id,
        lease=lease,
        crash_limit=worker.crash_limit,
        on_returned=partial(_spread_the_news, flags),
    )
    leadership = Leadership(pool, sql, metrics, me.id)
    yield "reap", lease / _LOOKS_PER_LEASE, reaper.turn
    ahead = settings.history.partitions_ahead
    history = History(pool, sql, ahead, hold, leadership.leads, metrics)
    yield "history", interval, history.turn
    yield "folds", _FOLD_SWEEP, parts.folder.sweep
    intakes = Intakes(sql, partial(borrow, pool), notify=settings.wakeups.mode != "off")
    yield "intakes", _INTAKE, intakes.turn
    yield "schedules", 1.0, Schedules(pool, sql, metrics, me.schedules).send
    statistics = Statistics(pool, sql, metrics, me.id)
    yield "statistics", maintenance.stats_interval.total_seconds(), statistics.write
    yield "backlog", interval, sparingly(lambda: statistics.show(queues()))
    freed = partial(_spread_the_news, {"events": flags["events"]})
    for name, seconds, turn in _of_the_leader(parts, leadership.leads, freed, intakes):
        yield name, seconds, leadership.only(turn)


def _of_the_leader(
    parts: Parts,
    leads: Callable[[], Awaitable[bool]],
    freed: Callable[[], Awaitable[None]],
    intakes: Intakes,
) -> Iterator[Duty]:
    """The duties that one worker does for all; harmless when two do them for a moment.

    `leads` is for those that take long: whether this worker leads still. `freed` tells everybody
    that there are events which may run now.
    """
    settings, pool, sql, metrics = parts.settings, parts.pool, parts.sql, parts.metrics
    interval, grace = settings.maintenance.interval.total_seconds(), settings.worker.unserved_grace
    stalled = StalledSessions(pool, sql, metrics, settings.database)
    patience = settings.database.idle_in_transaction_timeout.total_seconds()
    yield "stalled sessions", min(interval, patience / 2), stalled.turn
    is_open = partial(_is_open, parts, intakes)
    unserved = UnservedCommands(pool, sql, grace, is_open)
    yield "unserved commands", min(interval, grace.total_seconds() / 3), sparingly(unserved.turn)
    choice = Choice(settings.unhandled, sql, metrics, parts.me.id)
    events = UnhandledEvents(pool, sql, grace, is_open, choice)
    yield "unhandled events", min(interval, grace.total_seconds() / 3), sparingly(events.turn)
    choice = Choice(settings.unhandled, sql, metrics, parts.me.id)  # it tells of lines by itself
    lines = UnhandledLines(pool, sql, grace, is_open, choice, freed)
    yield "unhandled lines", min(interval, grace.total_seconds() / 3), lines.turn
    lists = UnhandledLists(pool, sql, grace, is_open)
    yield "unhandled lists", min(interval, grace.total_seconds() / 3), lists.turn
    yield "batches", interval, Abandoned(pool, sql, metrics).turn
    yield "undeclared schedules", interval, Undeclared(pool, sql).turn
    yield "undeclared topics", interval, Topics(pool, sql).look_after
    yield "retention", interval, Retention(settings, sql, metrics, leads).turn
    yield "purge", interval, Purge(pool, sql, metrics, settings.history).turn
    told = settings.maintenance.stats_interval.total_seconds()
    yield "duplicates", told, Telling(pool, sql, metrics, parts.me.id).turn
    sources = {name: source.window for name, source in settings.dedup.sources.items()}
    windows = Windows(settings.dedup.window, sources)
    yield "dedup", 1.0, Forgetting(pool, sql, metrics, windows).turn


def _is_open(parts: Parts, intakes: Intakes, place: str, lane: str, type_: str) -> bool:
    """Whether a lane is neither paused, nor waits for what is being taken out of it or into it."""
    if place == "topic" and intakes.holds(lane, type_):
        return False
    return parts.controls.allow(place, lane, type_)


async def _spread_the_news(flags: Mapping[Place, WakeUp]) -> None:
    """Rows are claimable without an insert; a worker that died may have left producers silent."""
    for wakeup in flags.values():
        wakeup.distrust("timer")
        await wakeup.tell_others()
