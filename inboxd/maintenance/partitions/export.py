"""Writes a partition's rows to a file before the partition is dropped.

The file is a draft until it is complete and on the disk; a recorded file is read back, has as many
rows as the partition, and is never overwritten. Known limits: the rows come from several snapshots,
which makes no difference while past days do not change; erasure does not reach files.
"""

import gzip
import itertools
import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from anyio.to_thread import run_sync

from inboxd.errors import ExportError, PartitionBusy
from inboxd.store import copying, partitions
from inboxd.store.partitions import Partition
from inboxd.store.session import Session

_BLOCK = 1024**2
# Seconds without a change until a draft counts as abandoned by a killed process.
_LEFT_BEHIND = 6 * 3600.0
# Higher levels save little space, and take much longer.
_LEVEL = 6


@dataclass(frozen=True, slots=True)
class Exporter:
    """The folder of exports, and their form: "jsonl" or "csv"."""

    folder: Path
    form: str

    async def export(self, session: Session, partition: Partition) -> int:
        """Returns its rows. Raises ExportError, and PartitionBusy if another process was faster."""
        rows, file = await self.write(session, partition)
        size, where = file.stat().st_size, f"{socket.gethostname()}:{file}"
        await partitions.retire(session, partition)
        if not await partitions.record_export(session, partition, rows, size, where):
            file.unlink()
            raise PartitionBusy(f"{partition.part} was exported by another process")
        return rows

    async def write(self, session: Session, partition: Partition) -> tuple[int, Path]:
        """Returns rows and path (inboxd.events_history_20260131.jsonl.gz). Raises ExportError."""
        name, end = f"{session.sql.schema}.{partition.part}", f".{self.form}.gz"
        draft = self.folder / f".{name}{end}.{socket.gethostname()}-{os.getpid()}"
        try:
            await run_sync(_clear, self.folder, session.sql.schema)
            rows, written = await self._stream(session, partition, draft)
            read = await run_sync(_length, draft)
            there = await copying.count(session, partition)
            if read != written or rows < there:
                raise ExportError(
                    f"{partition.part} has {there} rows, and {rows} were exported ({written} "
                    f"bytes, {read} read back): it stays, and is exported again"
                )
            return rows, await run_sync(_place, draft, name, end)
        except (OSError, EOFError) as error:
            raise ExportError(
                f"{partition.part} cannot be exported to {self.folder}: {error}; it stays: correct "
                "history.export"
            ) from error
        finally:
            with suppress(OSError):  # the error of the write has more information
                draft.unlink()

    async def _stream(self, session: Session, partition: Partition, draft: Path) -> tuple[int, int]:
        """Returns the number of rows, and of bytes before compression."""
        written = 0
        with await run_sync(_begin, draft) as raw:
            packed = gzip.GzipFile(
                filename="", mode="wb", compresslevel=_LEVEL, fileobj=raw, mtime=0
            )

            async def write(block: bytes) -> None:
                nonlocal written
                written += len(block)
                await run_sync(packed.write, block)

            rows = await copying.copy_out(session, partition, self.form, write)
            await run_sync(_end, packed, raw)
        return rows, written


def _clear(folder: Path, schema: str) -> None:
    """Remove drafts of killed processes; a draft in use changes constantly."""
    for draft in folder.glob(f".{schema}.*_history_*.gz.*"):
        with suppress(FileNotFoundError):  # another leader was faster
            if time.time() - draft.stat().st_mtime > _LEFT_BEHIND:
                draft.unlink()


def _begin(draft: Path) -> IO[bytes]:
    # Other users must not be able to read payloads.
    return os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")


def _end(packed: gzip.GzipFile, raw: IO[bytes]) -> None:
    packed.close()
    raw.flush()
    os.fsync(raw.fileno())


def _length(draft: Path) -> int:
    """The number of bytes, read back; the format's checksum detects other bytes than written."""
    with gzip.open(draft) as packed:
        return sum(iter(lambda: len(packed.read(_BLOCK)), 0))


def _place(draft: Path, name: str, end: str) -> Path:
    """Rename it to the first free name: an earlier file may be the only copy of its rows."""
    for number in itertools.count(1):
        file = draft.with_name(f"{name}{f'-{number}' * (number > 1)}{end}")
        try:
            file.touch(mode=0o600, exist_ok=False)
        except FileExistsError:
            continue
        try:
            draft.replace(file)
        except OSError:
            file.unlink()  # an empty file would look like an export
            raise
        try:
            _keep_name(file.parent)
        except OSError:
            file.unlink()  # each retry would leave another file
            raise
        return file
    raise AssertionError("numbers do not end")


def _keep_name(folder: Path) -> None:
    place = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(place)
    finally:
        os.close(place)
