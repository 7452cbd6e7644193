"""Partitions are exported completely before they are dropped, and are never dropped without it."""

import csv
import errno
import gzip
import io
import json
import os
import stat
from datetime import datetime
from pathlib import Path

import pytest

from inboxd.store import partitions
from tests.store.retained import MONTH, files_in, let_all_go, let_go, retire, told
from tests.support import Database
from tests.support.history import day, make_day, parts, settle, store_body
from tests.support.rows import daemon_session

pytestmark = pytest.mark.anyio


async def test_partition_is_exported_completely_before_it_is_dropped(
    database: Database, tmp_path: Path
) -> None:
    await make_day(database, 100)
    place = await store_body(database, 100, 'quotes " and \\ and \n and \x7f, ü')
    await settle(database, 100, 500, "test.events")
    await settle(database, 100, 1, "test.large", "events_history", place)
    await settle(database, 100, 7, "test.commands", "commands_history")
    await let_all_go(database, MONTH | {"export": str(tmp_path)})
    assert await parts(database) == set()
    files = files_in(tmp_path)
    assert files == [
        f"inboxd.{table}_history{day(100)}.jsonl.gz" for table in ("commands", "events")
    ]
    with gzip.open(tmp_path / files[1], "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    assert len(rows) == 501
    assert sorted(row["payload"]["n"] for row in rows if row["type"] == "test.events") == [
        *range(1, 501)
    ]
    (large,) = [row["payload"]["text"] for row in rows if row["type"] == "test.large"]
    assert large == 'quotes " and \\ and \n and \x7f, ü'
    assert (tmp_path / files[0]).stat().st_mode & 0o777 == 0o600
    known = await database.fetch(
        "select part, rows, file from inboxd.retired where rows is not null"
    )
    assert {row["part"]: row["rows"] for row in known} == {
        f"events_history{day(100)}": 501,
        f"commands_history{day(100)}": 7,
    }


async def test_csv_of_several_steps_has_a_heading_and_all_rows(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inboxd.store.copying._PAGES_PER_COPY", 2)
    await make_day(database, 100)
    await settle(database, 100, 500)
    await let_go(database, MONTH | {"export": str(tmp_path), "export_format": "csv"})
    file = tmp_path / f"inboxd.events_history{day(100)}.csv.gz"
    with gzip.open(file, "rt", encoding="utf-8", newline="") as text:
        rows = list(csv.DictReader(io.StringIO(text.read())))
    assert sorted(json.loads(row["payload"])["n"] for row in rows) == [*range(1, 501)]
    assert {row["status"] for row in rows} == {"succeeded"}


async def test_times_and_bytes_in_a_file_do_not_depend_on_the_database(
    database: Database, tmp_path: Path
) -> None:
    """05/08 may be a day in May or in August, and the database is gone when the file is read."""
    await make_day(database, 100)
    place = await store_body(database, 100, "")
    await database.execute("update inboxd.bodies set payload = null, raw = '\\x0061'")
    await settle(database, 100, 1, "test.raw", "events_history", place)
    for style in ("datestyle = 'SQL, DMY'", "bytea_output = 'escape'"):
        await database.execute(f"alter database {database.name} set {style}")
    await let_go(database, MONTH | {"export": str(tmp_path), "export_format": "csv"})
    file = tmp_path / f"inboxd.events_history{day(100)}.csv.gz"
    with gzip.open(file, "rt", encoding="utf-8", newline="") as text:
        (row,) = csv.DictReader(io.StringIO(text.read()))
    (written,) = {datetime.fromisoformat(row[name]) for name in ("created_at", "finished_at")}
    assert f"{written:_%Y%m%d}" == day(100)
    assert row["raw"] == "\\x0061"


@pytest.mark.parametrize("key", ["=1+1", "+1", "-1", "@a", "\t=1", "\r=1"])
async def test_cells_that_look_like_formulas_are_unchanged(
    database: Database, tmp_path: Path, key: str
) -> None:
    """The file replaces the dropped rows, so a program must load the same values."""
    await make_day(database, 100)
    await settle(database, 100, 1)
    await database.execute("update inboxd.events_history set ordering_key = $1", key)
    await let_go(database, MONTH | {"export": str(tmp_path), "export_format": "csv"})
    file = tmp_path / f"inboxd.events_history{day(100)}.csv.gz"
    with gzip.open(file, "rt", encoding="utf-8", newline="") as text:
        (row,) = csv.DictReader(io.StringIO(text.read(), newline=""))
    assert row["ordering_key"] == key


async def test_partition_stays_if_its_export_fails(database: Database, tmp_path: Path) -> None:
    await make_day(database, 100)
    await settle(database, 100, 5)
    metrics = await let_go(database, MONTH | {"export": str(tmp_path / "missing")})
    assert {f"events_history{day(100)}", f"commands_history{day(100)}"} < await parts(database)
    assert told(metrics, "inboxd_export_failures_total", "events_history") == 1
    assert await database.fetchval("select count(*) from inboxd.events_history") == 5
    (tmp_path / "missing").mkdir()
    await let_all_go(database, MONTH | {"export": str(tmp_path / "missing")})
    assert await parts(database) == set()


async def test_export_into_an_unwritable_folder_counts_as_failed(
    database: Database, tmp_path: Path
) -> None:
    """The removal of an old draft fails already, as on a read-only disk."""
    await make_day(database, 100)
    (tmp_path / "no folder").touch()
    metrics = await let_go(database, MONTH | {"export": str(tmp_path / "no folder")})
    for table in ("events_history", "commands_history"):
        assert told(metrics, "inboxd_export_failures_total", table) == 1


async def test_file_without_a_durable_name_is_removed(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = os.fsync

    def refuse(place: int) -> None:
        if stat.S_ISDIR(os.fstat(place).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")
        sync(place)

    monkeypatch.setattr(os, "fsync", refuse)
    await make_day(database, 100)
    metrics = await let_go(database, MONTH | {"export": str(tmp_path)})
    assert told(metrics, "inboxd_export_failures_total", "events_history") == 1
    assert files_in(tmp_path) == []


async def test_drafts_of_killed_processes_are_removed_later(
    database: Database, tmp_path: Path
) -> None:
    await make_day(database, 100)
    name = f".inboxd.events_history{day(101)}.jsonl.gz.host-1"
    left, fresh = tmp_path / name, tmp_path / f"{name}0"
    for file in (left, fresh):
        file.touch()
    os.utime(left, (0, 0))
    await let_go(database, MONTH | {"export": str(tmp_path)})
    assert not left.exists()
    assert fresh.exists(), "its process may still write it"


async def test_partition_with_unexported_rows_is_attached_again(
    database: Database, tmp_path: Path
) -> None:
    """The record has fewer rows than the partition: it is attached, and exported again."""
    await make_day(database, 100, "events_history")
    await settle(database, 100, 5)
    history = MONTH | {"export": str(tmp_path)}
    async with daemon_session(database) as session:
        oldest = await retire(session, f"events_history{day(100)}")
        await partitions.record_export(session, oldest, 4, 1, "elsewhere")
    await let_go(database, history)
    assert await database.fetchval("select count(*) from inboxd.events_history") == 5
    await let_go(database, history)
    assert await parts(database) == set()
    assert len(files_in(tmp_path)) == 1
