"""How much memory one worker needs: with a million rows waiting, and with a thousand large ones.

    make bench ONLY=memory

Resident memory is read twenty times per second. The comparison with the first quarter of the drain
shows whether it grows. The backlog has ten times --rows. The large rows compress well on the
server's disk; in the worker they have their full size.
"""

import asyncio
from collections.abc import AsyncIterator

from harness.backlog import fill_commands, fill_events
from harness.bench import Bench, called, emptied, main
from harness.cpu import resident
from harness.figures import Line, Run, Target

LARGE_ROWS, LARGE_BYTES = 1_000, 5_000_000


async def measure(bench: Bench, table: str, rows: int, size: int) -> list[float]:
    """Megabytes from the first claim until the last settlement."""
    async with bench.fresh() as connection:
        await (fill_events if table == "events" else fill_commands)(connection, rows, size=size)
        async with bench.held_daemons(1) as ([daemon], release):
            await release()
            drained = asyncio.create_task(called([daemon], rows))
            seen = [resident(daemon.pid)]
            while not drained.done():
                await asyncio.sleep(0.05)
                seen.append(resident(daemon.pid))
            await emptied(connection, f"inboxd.{table}")
            seen.append(resident(daemon.pid, "VmHWM"))
    return seen


async def figures(bench: Bench) -> AsyncIterator[Line]:
    """The peak, compared with the peak of the first quarter."""
    large = max(10, min(LARGE_ROWS, bench.rows // 100))
    for rows, size, most in ((10 * bench.rows, 200, 100.0), (large, LARGE_BYTES, 300.0)):
        for table in ("events", "commands"):
            weight = "200 bytes" if size == 200 else "5 MB"
            what = f"memory with {rows:,} {table} of {weight}"
            if bench.wants(what):
                seen = await measure(bench, table, rows, size)
                first = max(seen[: 1 + len(seen) // 4])
                target = Target(most, most=True)
                yield Line(what, [Run(seen[-1])], "first quarter", [Run(first)], target, " MB")


if __name__ == "__main__":
    main(figures, __doc__)
