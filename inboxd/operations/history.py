"""The partitions of history, bodies and receipts, and the ones that retention drops next.

Known limit: it uses the retention of the given settings; workers elsewhere may have others.
*See:* `store/retention.py`, which decides.
"""

from typing import Any

from inboxd.settings import Settings
from inboxd.store import partitions
from inboxd.store.partitions import Partition
from inboxd.store.retention import kept, served
from inboxd.store.session import Session


async def history(session: Session, settings: Settings) -> dict[str, Any]:
    """Return the retention of each table, and all partitions; `due`: retention drops it next."""
    listed = await partitions.listed(session, sizes=True)
    keep = kept(settings)
    going = {each.part for each in served(listed, keep)}
    found = [{**plain(each), "due": each.part in going} for each in listed]
    return {"retention": dict(keep), "partitions": found}


def plain(each: Partition) -> dict[str, Any]:
    """Return a partition as JSON values."""
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
