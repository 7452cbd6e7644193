"""The partitions of history, bodies and receipts, and what retention would do with them.

Known limit: retention is that of the settings that are given, which workers elsewhere may not
share.
*See:* `store/retention.py`, which judges.
"""

from typing import Any

from inboxd.settings import Settings
from inboxd.store import partitions
from inboxd.store.partitions import Partition
from inboxd.store.retention import kept, served
from inboxd.store.session import Session


async def history(session: Session, settings: Settings) -> dict[str, Any]:
    """How long each table is kept, and each partition; `due`: retention lets it go next."""
    listed = await partitions.listed(session.connection, session.sql, sizes=True)
    keep = kept(settings)
    going = {each.part for each in served(listed, keep)}
    found = [{**plain(each), "due": each.part in going} for each in listed]
    return {"retention": dict(keep), "partitions": found}


def plain(each: Partition) -> dict[str, Any]:
    """A partition for JSON."""
    return {
        "partition": each.part,
        "table": each.parent,
        "from": each.low,
        "to": each.high,
        "state": each.state,
        "rows": each.rows,
        "bytes": each.bytes,
        "empty": each.empty,
        "exported": each.exported,
    }
