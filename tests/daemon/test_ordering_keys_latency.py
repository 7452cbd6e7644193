"""A key goes on when its retry is due, or when the command before it has ended, without a poll."""

import pytest

from inboxd.commands import processing
from inboxd.commands.sources import limited
from inboxd.daemon import worker
from inboxd.settings import Settings
from tests.daemon.test_ordering_keys import ended, lines, steps
from tests.support import Database

pytestmark = pytest.mark.anyio

__all__ = ["lines"]

HOUR = 3600.0


async def test_an_idle_worker_starts_retries_and_freed_keys_at_once(
    lines: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every second command fails once, and is due again 100 ms later."""
    monkeypatch.setattr(limited, "_LOOK_AGAIN", HOUR)
    monkeypatch.setattr(processing, "_LONGEST_WAIT", HOUR)
    settings = {"plugins": ["testplugin"], "poll_interval": "1h"}
    database = {"dsn": lines.dsn}
    async with worker(Settings.model_validate({"database": database, "worker": settings})):
        for k in range(10):
            touch = k % 2 == 0
            payloads = [
                {"key": f"k{k}", "n": n, "good_at": 1 + n % 2, "touch": touch} for n in range(4)
            ]
            await steps(lines, payloads)
            await ended(lines, 4 * (k + 1))
