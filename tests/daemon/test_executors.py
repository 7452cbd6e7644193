"""Handlers in threads and in processes: the same rules, and no process outlives its command."""

import json
import os
from pathlib import Path

import pytest

from tests.daemon.inbox import Inbox, errors_of
from tests.support import eventually

pytestmark = pytest.mark.anyio


def _pids(path: Path) -> list[int]:
    return [int(word) for word in path.read_text().split()] if path.exists() else []


async def _gone(pid: int) -> None:
    async def is_gone() -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False

    await eventually(is_gone)


async def test_a_thread_writes_in_the_commands_transaction(inbox: Inbox) -> None:
    ids = await inbox.write_many("command", "test.thread", [{"n": n} for n in range(20)])
    await inbox.succeeded("command", *ids)
    assert await inbox.notes(*ids) == [("thread", row_id, str(n)) for n, row_id in enumerate(ids)]
    # One transaction: the effect and the settlement have the same transaction id.
    together = await inbox.database.fetchval(
        "select count(*) from ledger l join inboxd.commands_history c on c.id = l.row_id "
        "where l.row_id = any ($1) and l.xmin = c.xmin",
        ids,
    )
    assert together == len(ids)


async def test_a_process_returns_its_result(inbox: Inbox) -> None:
    row_id = await inbox.write("command", "test.process", {"n": 12})
    result = json.loads((await inbox.settled("command", row_id))["result"])
    assert result["square"] == 144
    assert result["pid"] != os.getpid()


async def test_an_error_in_a_process_fails_the_attempt(inbox: Inbox, tmp_path: Path) -> None:
    how = {"path": str(tmp_path / "pids"), "how": "raise"}
    row_id = await inbox.write("command", "test.dying_process", how, max_attempts=1)
    [error] = errors_of(await inbox.dead("command", row_id))
    assert error["error"] == "ValueError: from another process"


async def test_a_timeout_ends_the_process(inbox: Inbox, tmp_path: Path) -> None:
    path = tmp_path / "pids"
    row_id = await inbox.write(
        "command", "test.dying_process", {"path": str(path), "how": "hang"}, max_attempts=1
    )
    [error] = errors_of(await inbox.dead("command", row_id))
    assert "HandlerTimeout: ran longer than its timeout of 20 s" in error["error"]
    for pid in _pids(path):
        await _gone(pid)


async def test_a_process_that_dies_costs_an_attempt(inbox: Inbox, tmp_path: Path) -> None:
    path, for_good = tmp_path / "pids", tmp_path / "pids-for-good"
    once = await inbox.write(
        "command", "test.dying_process", {"path": str(path), "how": "die once"}
    )
    always = await inbox.write(
        "command", "test.dying_process", {"path": str(for_good), "how": "die"}
    )
    settled = await inbox.settled("command", once)
    assert (settled["attempts"], json.loads(settled["result"])) == (2, "lived")
    assert "HandlerCrashed" in errors_of(settled)[0]["error"]
    row = await inbox.dead("command", always)
    assert len(errors_of(row)) == 3
    assert all("HandlerCrashed" in each["error"] for each in errors_of(row))
    assert len(_pids(path)) == 2
    assert len(_pids(for_good)) == 3


@pytest.mark.parametrize("how", ["write", "read"])
async def test_standard_files_belong_to_the_handler(inbox: Inbox, tmp_path: Path, how: str) -> None:
    """Input and output of a handler and its programs do not mix with the processes' protocol."""
    path = tmp_path / "pids"
    told = {"path": str(path), "how": how}
    ids = await inbox.write_many("command", "test.dying_process", [told] * 5, max_attempts=1)
    await inbox.succeeded("command", *ids)
    after = await inbox.write("command", "test.process", {"n": 3})
    assert json.loads((await inbox.settled("command", after))["result"])["square"] == 9
