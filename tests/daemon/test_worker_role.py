"""The rights of the worker's role suffice: it settles, retries, lines up, and claims in limits."""

from urllib.parse import urlsplit, urlunsplit

import pytest

from tests.daemon.inbox import Inbox
from tests.support import StartWorker

pytestmark = [pytest.mark.anyio, pytest.mark.direct("the pooler knows one role")]


async def test_the_rights_of_the_role_suffice(own: Inbox, start_worker: StartWorker) -> None:
    name = f"{own.database.name}_daemon"
    await own.database.execute(
        f"create role {name} login in role inboxd_worker; grant all on ledger to {name}"
    )
    parts = urlsplit(own.database.dsn)
    netloc = f"{name}@{parts.netloc.rpartition('@')[2]}"
    try:
        worker = await start_worker(
            {
                "database": {"dsn": urlunsplit(parts._replace(netloc=netloc))},
                "queues": {"narrow": {"total_concurrency": 2, "rate": "100/s"}},
            }
        )
        events = await own.write_many(
            "event", "test.ledger", [{"n": n, "sends": 1} for n in (1, 2)]
        )
        lined = await own.write_many(
            "event",
            "test.ledger",
            [{"n": 3}] * 2,
            topic="alone",
            mode="sequential",
            ordering_key="k",
        )
        keyed = await own.write_many(
            "command", "test.ledger", [{"n": n} for n in range(4)], queue="narrow", ordering_key="k"
        )
        commands = await own.write_many("command", "test.ledger", [{"n": 1}] * 3, queue="narrow")
        bad = [await own.write(kind, "test.ledger", {"n": []}) for kind in ("event", "command")]
        await own.succeeded("event", *events, *lined)
        await own.succeeded("command", *keyed, *commands)
        await own.dead("event", bad[0])
        await own.dead("command", bad[1])
        assert "permission denied" not in worker.output()
        await worker.stop()
    finally:
        await own.database.execute(f"drop owned by {name}; drop role {name}")
