"""Writes a page of receipts, for as long as a request may wait; then drops the connection."""

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial

import anyio

from inboxd.inbound.group_commit import Write
from inboxd.model.receipt import Receipt
from inboxd.store import receipts
from inboxd.store.pools import Pool, lend, transaction
from inboxd.store.receipts import Stored


def page_writer(pool: Pool, within: float) -> Write:
    """Make a function that writes a page and commits, within `within` seconds in all."""

    async def write(page: Sequence[Receipt]) -> Sequence[Stored]:
        until = anyio.current_time() + within
        async with lend(pool, within) as session:
            # Inside `lend`: a time limit around it would wait for the server when the connection is
            # closed.
            with anyio.fail_after(until - anyio.current_time()):
                # Behind a pooler each attempt is a transaction that first sets the session's
                # limits.
                begin = partial(transaction, pool, session) if pool.preamble else nullcontext
                return await receipts.write(session, page, begin)

    return write
