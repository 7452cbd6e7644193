"""A command that idles in its transaction for too long fails, and its error names the limit."""

import anyio
import pytest

from tests.daemon.inbox import Inbox, errors_of
from tests.support import StartWorker
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio


async def test_each_idle_run_is_an_attempt_and_names_the_limit(
    own: Inbox, start_worker: StartWorker
) -> None:
    await start_worker(
        {
            "database": {"idle_in_transaction_timeout": "1s"},
            "events": {"timeout": "500ms"},
        }
    )
    row_id = await own.write("command", "test.leave_idle", {"how": "idle"})
    row = await own.dead("command", row_id)
    errors = [each["error"] for each in errors_of(row)]
    with safety():
        assert row["attempts"] == len(errors) == 2
    assert all("idle_in_transaction_timeout (1 s) ended it" in each for each in errors)
    assert await own.notes(row_id) == []


async def test_a_handler_that_ends_its_session_is_excused_twice(
    own: Inbox, start_worker: StartWorker
) -> None:
    """Each run increments a sequence, which no rollback undoes."""
    await own.database.execute("create sequence runs")
    await start_worker({"types": {"test.patient": {"retry": {"base": "50ms", "attempts": 4}}}})
    sql = "select pg_terminate_backend(pg_backend_pid()) where nextval('runs') > 0"
    row_id = await own.write("command", "test.patient", {"sql": sql})
    row = await own.dead("command", row_id)
    assert row["attempts"] == 4
    with anyio.fail_after(5):
        assert await own.database.fetchval("select last_value from runs") == 2 + 4
