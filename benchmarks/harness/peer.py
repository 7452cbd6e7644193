"""One worker process of a peer, with a handler that does nothing: `peer.py pgqueuer DSN`.

The options are the best of a short sweep of those that the peers' documentation suggests; asyncpg
and psycopg are used as each peer brings them, uvloop for both.
"""

import sys

import asyncpg
import uvloop

from inboxd_bench.marks import Marks

marks = Marks.of_this_process()


async def pgqueuer(dsn: str) -> None:
    """Claims a thousand jobs per statement, and collects finished jobs."""
    from pgqueuer import PgQueuer  # noqa: PLC0415 - only one of the two is needed
    from pgqueuer.models import Job  # noqa: PLC0415

    async with asyncpg.create_pool(dsn, min_size=4, max_size=4) as pool:
        worker = PgQueuer.from_asyncpg_pool(pool)

        async def noop(_job: Job) -> None:
            marks.called()

        worker.entrypoint("noop")(noop)
        await worker.run(batch_size=1_000)


async def procrastinate(dsn: str) -> None:
    """Claims one job per statement, thirty at a time."""
    from procrastinate import App, PsycopgConnector  # noqa: PLC0415

    app = App(connector=PsycopgConnector(conninfo=dsn, min_size=10, max_size=10))

    async def noop(**_payload: object) -> None:
        marks.called()

    app.task(name="noop")(noop)
    async with app.open_async():
        await app.run_worker_async(concurrency=30, delete_jobs="never")


if __name__ == "__main__":
    uvloop.run({"pgqueuer": pgqueuer, "procrastinate": procrastinate}[sys.argv[1]](sys.argv[2]))
