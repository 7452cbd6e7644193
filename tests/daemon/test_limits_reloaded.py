"""Limits over all workers, and of ordering keys, that change while commands run."""

import re
import signal

import pytest

from tests.daemon.test_ordering_keys import lines, steps
from tests.support import Database, StartWorker, Worker, eventually

pytestmark = pytest.mark.anyio

__all__ = ["lines"]


async def running(database: Database, queue: str, count: int) -> None:
    """Wait until exactly this many commands of a queue run."""
    find = "select count(*) from inboxd.commands where queue = $1 and status = 'running'"

    async def run() -> bool:
        return bool(await database.fetchval(find, queue) == count)

    await eventually(run)


def reload(worker: Worker, **limits: int) -> None:
    """Change limits in the worker's settings, and reload them."""
    settings = worker.log.with_suffix(".toml")
    text = settings.read_text()
    for name, value in limits.items():
        text, found = re.subn(rf'"?{name}"? = \d+', f'"{name}" = {value}', text)
        assert found == 1
    settings.write_text(text)
    worker.process.send_signal(signal.SIGHUP)


async def test_reloaded_limits_start_commands_that_now_have_room(
    lines: Database, start_worker: StartWorker
) -> None:
    worker = await start_worker(
        {
            "worker": {"poll_interval": "1h"},
            "queues": {"lines": {"total_concurrency": 1}, "keyed": {"key_concurrency": 1}},
        }
    )
    slow = {"wait": 3600, "touch": False, "key": "a"}
    await steps(lines, [slow] * 6, ordering_key=None)
    await steps(lines, [slow], queue="keyed")
    await running(lines, "lines", 1)
    await running(lines, "keyed", 1)
    await steps(lines, [slow] * 3, queue="keyed")
    # This command came last, so the worker has seen the others.
    await steps(lines, [slow], queue="other", ordering_key=None)
    await running(lines, "other", 1)
    await running(lines, "keyed", 1)

    reload(worker, total_concurrency=3, key_concurrency=2)
    await running(lines, "lines", 3)
    await running(lines, "keyed", 2)
    reload(worker, key_concurrency=3)
    await running(lines, "keyed", 3)
    await running(lines, "lines", 3)


async def test_a_key_with_room_starts_later_commands(
    lines: Database, start_worker: StartWorker
) -> None:
    """Two of a key may run: the first goes on, while the others run beside it, one by one."""
    await start_worker(
        {"worker": {"poll_interval": "1h"}, "queues": {"lines": {"key_concurrency": 2}}}
    )
    slow = {"wait": 3600, "touch": False, "key": "a"}
    await steps(lines, [slow])
    await running(lines, "lines", 1)
    await steps(lines, [{"touch": False, "key": "a"}] * 40)

    async def all_but_the_slow_one() -> bool:
        return bool(await lines.fetchval("select count(*) from inboxd.commands") == 1)

    await eventually(all_but_the_slow_one)
