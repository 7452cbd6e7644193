"""How soon a key goes on: when its retry is due, and when what held it has ended."""

import pytest

from tests.daemon.test_ordering_keys import ended, lines, steps
from tests.support import Config, Database, StartWorker

pytestmark = pytest.mark.anyio

__all__ = ["lines"]

# No poll helps.
NO_POLL: Config = {"worker": {"poll_interval": "1h"}}

# From when it was due and nobody ahead of it was left, until it started.
_LATE = """
select date_part('epoch', started_at - greatest(run_at, lag(finished_at) over (
           partition by ordering_key order by (payload ->> 'n')::int))) as late
  from inboxd.commands_history order by late
"""


async def test_an_idle_worker_takes_up_a_retry_and_a_freed_key_at_once(
    lines: Database, start_worker: StartWorker
) -> None:
    """Every other command fails once, and is due again 100 ms later."""
    await start_worker(NO_POLL)
    for k in range(10):
        touch = k % 2 == 0
        payloads = [
            {"key": f"k{k}", "n": n, "good_at": 1 + n % 2, "touch": touch} for n in range(4)
        ]
        await steps(lines, payloads)
        await ended(lines, 4 * (k + 1))
    late = [row["late"] for row in await lines.fetch(_LATE)]
    assert late[len(late) // 2] < 0.25, "a sweep comes every second: with luck, after half of one"
    assert late[-1] < 20, "a timer or the end of the one ahead woke it"
