"""Inserts and waits of tests of a running daemon.

    row_id = await inbox.write("command", "test.ledger", {"n": 1})
    await inbox.succeeded("command", row_id)

Promises: each method looks at given rows only, so tests share a database and a worker.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import asyncpg

from tests.support import Database, eventually
from tests.support.verdicts import Late, Violation, safety

Kind = Literal["event", "command"]
KINDS: tuple[Kind, ...] = ("event", "command")

# Ids of commands are far above those of events, so an id in the ledger means one row.
TABLES = """
alter table inboxd.commands alter column id restart with 1000000001;
create table ledger (kind text, row_id bigint, note text);
create table parent (id bigint primary key);
create table child (parent bigint references parent deferrable initially deferred);
"""


@dataclass(frozen=True)
class Inbox:
    """The tables of one database, as a producer and an operator see them."""

    database: Database

    async def write(self, kind: Kind, type_: str, payload: object = None, **columns: object) -> int:
        """Insert one row as a producer does; return its id."""
        return (
            await self.write_many(kind, type_, [{} if payload is None else payload], **columns)
        )[0]

    async def write_many(
        self, kind: Kind, type_: str, payloads: Sequence[object], **columns: object
    ) -> list[int]:
        """Insert a row for each payload in one transaction; return their ids."""
        return await self.write_json(
            kind, type_, [json.dumps(each) for each in payloads], **columns
        )

    async def write_json(
        self, kind: Kind, type_: str, texts: Sequence[str | None], **columns: object
    ) -> list[int]:
        """Insert a row for each payload, given as JSON text or None; return their ids."""
        if kind == "command":
            columns = {"queue": "default", **columns}
        names = "".join(f", {name}" for name in columns)
        values = "".join(f", ${n}" for n in range(3, 3 + len(columns)))
        rows = await self.database.fetch(
            f"insert into inboxd.{kind}s (type, payload{names}) "
            f"select $1, text::jsonb{values} from unnest($2::text[]) as text returning id",
            type_,
            list(texts),
            *columns.values(),
        )
        return [row["id"] for row in rows]

    async def hot(self, kind: Kind, row_id: int) -> asyncpg.Record | None:
        """The row, or None if it is settled."""
        rows = await self.database.fetch(f"select * from inboxd.{kind}s where id = $1", row_id)
        return rows[0] if rows else None

    async def settled(self, kind: Kind, row_id: int, within: float = 30) -> asyncpg.Record:
        """Wait until the row is in history; return it."""

        async def find() -> list[asyncpg.Record]:
            return await self.database.fetch(
                f"select * from inboxd.{kind}s_history where id = $1", row_id
            )

        return (await eventually(find, within))[0]

    async def succeeded(self, kind: Kind, *row_ids: int, within: float = 30) -> None:
        """Wait until all these rows have succeeded."""

        async def all_have() -> bool:
            found = await self.database.fetchval(
                f"select count(*) from inboxd.{kind}s_history "
                "where id = any ($1) and status = 'succeeded'",
                row_ids,
            )
            return bool(found == len(row_ids))

        try:
            await eventually(all_have, within)
        except Late as error:
            left = await self.database.fetchval(
                f"select count(*) from (select id from inboxd.{kind}s union all"
                f" select id from inboxd.{kind}s_history) rows where id = any ($1)",
                row_ids,
            )
            if left < len(row_ids):
                raise Violation(f"{error}: {len(row_ids) - left} {kind}s are lost") from error
            raise

    async def dead(self, kind: Kind, row_id: int, within: float = 30) -> asyncpg.Record:
        """Wait until the row is a dead letter; return it."""

        async def find() -> list[asyncpg.Record]:
            row = await self.hot(kind, row_id)
            return [row] if row and row["status"] == "failed" else []

        return (await eventually(find, within))[0]

    async def errors(self, kind: Kind, row_id: int) -> list[dict[str, Any]]:
        """Wait until the unsettled row has errors; return them."""

        async def find() -> list[dict[str, Any]]:
            row = await self.hot(kind, row_id)
            return errors_of(row) if row else []

        return await eventually(find)

    async def running(self, *row_ids: int) -> None:
        """Wait until these commands run."""

        async def all_run() -> bool:
            found = await self.database.fetchval(
                "select count(*) from inboxd.commands where id = any ($1) and status = 'running'",
                row_ids,
            )
            return bool(found == len(row_ids))

        await eventually(all_run)

    async def notes(self, *row_ids: int) -> list[tuple[str, int, str]]:
        """The notes that handlers wrote to the ledger for these rows, in order of the rows.

        Raises Violation if a row took effect twice.
        """
        rows = await self.database.fetch(
            "select kind, row_id, note from ledger where row_id = any ($1) order by row_id, kind",
            row_ids,
        )
        notes = [tuple(row) for row in rows]
        with safety():
            assert len(notes) == len({(kind, row_id) for kind, row_id, _ in notes}), notes
        return notes

    async def children(self, kind: Kind, row_id: int) -> list[asyncpg.Record]:
        """The commands that a row's handler sent, settled or not."""
        columns = (
            "id, type, queue, origin_kind, origin_id, correlation_id, causation_id, traceparent, "
            "tenant, run_at, created_at"
        )
        tables = (f"select {columns} from inboxd.{t}" for t in ("commands", "commands_history"))
        return await self.database.fetch(
            f"select * from ({' union all '.join(tables)}) as c "
            "where origin_kind = $1 and origin_id = $2 order by id",
            kind,
            row_id,
        )


def errors_of(row: asyncpg.Record) -> list[dict[str, Any]]:
    """The decoded `errors` of a row."""
    found: list[dict[str, Any]] = json.loads(row["errors"] or "[]")
    return found
