"""The partitions of history, bodies and receipts; `due` by the given settings, not the workers'."""

from typing import Any

from inboxd.settings import Settings
from inboxd.store import partitions
from inboxd.store.partitions import Partition
from inboxd.store.retention import kept, served
from inboxd.store.session import Session


async def history(session: Session, settings: Settings) -> dict[str, Any]:
    """`due`: retention drops this partition next."""
    listed = await partitions.listed(session, sizes=True)
    keep = kept(settings)
    going = {each.part for each in served(listed, keep)}
    found = [{**plain(each), "due": each.part in going} for each in listed]
    return {"retention": dict(keep), "partitions": found}


def plain(each: Partition) -> dict[str, Any]:
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
