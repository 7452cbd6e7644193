"""Drops partitions that are older than the settings keep them.

`store/retention.py` decides which whole partitions are due. Known limit: `retention` of a type can
only be shorter than that of `[history]`.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import anyio

from inboxd.errors import ExportError, PartitionBusy
from inboxd.maintenance.partitions.export import Exporter
from inboxd.maintenance.partitions.removal import PartitionRemoval
from inboxd.settings import Settings
from inboxd.store import partitions
from inboxd.store.partitions import HISTORY, Partition
from inboxd.store.retention import kept, served, stays
from inboxd.store.session import Session, connect
from inboxd.telemetry.logs import get_logger
from inboxd.telemetry.metrics import Metrics

_log = get_logger(__name__)

# Statements here may take long; lock timeouts are as short as everywhere.
PATIENT = {"statement_timeout": "0"}
# Pages per step of a trim, and seconds of rest for each second of work.
_TRIMMED, _REST = 2000, 1.0

# Maximum delay until a leading worker has removed due partitions.
_LATE = timedelta(days=2)


def exporter(settings: Settings) -> Exporter | None:
    history = settings.history
    return None if history.export is None else Exporter(history.export, history.export_format)


def by_default(found: Sequence[Partition], settings: Settings) -> list[Partition]:
    """The operator may not have chosen its removal. found: with sizes."""
    unset = (name for name in ("events", "commands") if _is_unset(settings, name))
    keep = {f"{name}_history": getattr(settings.history, name) for name in unset}
    return [
        each
        for each in found
        if (longest := keep.get(each.parent)) is not None
        and each.state == "attached"
        and not each.empty
        and each.age >= (longest + _LATE).total_seconds()
    ]


def _is_unset(settings: Settings, name: str) -> bool:
    return settings.source_of(f"history.{name}") == "default"


def trims(
    found: Sequence[Partition], types: Mapping[str, timedelta]
) -> Iterator[tuple[Partition, list[str]]]:
    history = [each for each in found if each.parent in HISTORY and each.state == "attached"]
    for each in sorted(history, key=lambda each: each.low):
        due = {type_ for type_, age in types.items() if each.age >= age.total_seconds()}
        if left := sorted(due.difference(each.trimmed)):
            yield each, left


@dataclass(frozen=True, slots=True)
class Retention:
    """Removes partitions. leads: whether this worker still leads, asked before each partition."""

    settings: Settings
    metrics: Metrics
    leads: Callable[[], Awaitable[bool]]

    async def let_go(self) -> None:
        session = await connect(self.settings.database, "retention", plans=PATIENT)
        try:
            found = await partitions.listed(session)
            self.metrics.show_partitions(self._lines(found))
            await self._drop(session, found)
            await self._trim(session, await partitions.listed(session))
        finally:
            session.connection.terminate()

    def _lines(self, found: Sequence[Partition]) -> Iterator[tuple[str, float, float]]:
        """By table: the age of its oldest partition, and how long it is overdue, in seconds."""
        for table, longest in kept(self.settings).items():
            oldest = max((each.age for each in found if each.parent == table), default=0.0)
            late = 0.0 if longest is None else oldest - longest.total_seconds()
            yield table, max(oldest, 0.0), max(late, 0.0)

    async def _drop(self, session: Session, found: Sequence[Partition]) -> None:
        removal = PartitionRemoval(session, exporter(self.settings), _log.info)
        keep, stuck = kept(self.settings), set[str]()
        for each in served(found, keep):
            if each.parent in stuck or not await self.leads():
                continue
            try:
                if await removal.go(each, stays=stays(each, keep)):
                    self.metrics.partitions_dropped.labels(each.parent).inc()
            except ExportError as error:
                self.metrics.export_failures.labels(each.parent).inc()
                _log.error("export failed", partition=each.part, reason=str(error))
                stuck.add(each.parent)
            except PartitionBusy as error:
                _log.warning("partition is busy", partition=each.part, reason=str(error))
                stuck.add(each.parent)

    async def _trim(self, session: Session, found: Sequence[Partition]) -> None:
        types_ = self.settings.types.items()
        ages = {name: one.retention for name, one in types_ if one.retention is not None}
        for each, types in trims(found, ages):
            if not await self.leads():
                return
            rows = 0
            for page in range(0, await partitions.pages(session, each), _TRIMMED):
                began = anyio.current_time()
                rows += await partitions.trim(session, each, types, page, _TRIMMED)
                await anyio.sleep((anyio.current_time() - began) * _REST)
            await partitions.record_trim(session, each, types, rows)
            self.metrics.purged.labels(each.parent).inc(rows)
            _log.info("removed types", partition=each.part, types=types, rows=rows)
