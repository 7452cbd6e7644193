"""The form of each action: sent twice, garbled, forged, sent by two at once; and its result."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import httpx
import pytest

from inboxd.admin.screens.actions import ACTIONS
from inboxd.model.lineage import uuid7
from tests.screens.confirming import Asked, ReadForm, act, ask, confirm
from tests.screens.reading import Read
from tests.screens.test_acting import audit
from tests.screens.test_acting_kinds import SETTING
from tests.screens.visiting import SAME, Visited, sign_in, user, visiting
from tests.support import Database
from tests.support.locks import lock_awaited
from tests.support.rows import send
from tests.support.spooled import APART, GONE, HOST, host_spool

pytestmark = pytest.mark.anyio


class ActionCase(NamedTuple):
    """An action that succeeds: its address, the values typed, SQL to run before, its status.

    status: 200 if the answer contains a secret.
    """

    path: str
    typed: dict[str, str] = {}  # noqa: RUF012 - no code changes it
    before: str = ""
    status: int = 303


_EVENT = "00000000-0000-4000-8000-000000000001"
_WRITTEN = (
    f"insert into inboxd.events (event_id, type, topic) values ('{_EVENT}', 'old.type', 'default')"
)
_FAILED_EVENT = f"{_WRITTEN}; update inboxd.events set status = 'failed'"
_FAILED = "update inboxd.commands set status = 'failed'"
_GROUP = "update inboxd.commands set status = 'failed', fingerprint = 'f1'"
_ARCHIVED = (
    "insert into inboxd.archived_failures (kind, fingerprint, actor, count, last_id)"
    " values ('command', 'f1', 'ana', 2, 2)"
)
_PAUSED = "insert into inboxd.controls (kind, name, actor) values ('queue', 'default', 'ana')"
_DISABLED = (
    "update inboxd.endpoints set enabled = false, disabled_at = now(), disabled_by = 'operator',"
    " disabled_reason = 'r'"
)
_DELIVERED = (
    "insert into inboxd.commands_history (id, command_id, queue, type, schema_version, payload,"
    " priority, status, attempts, crashes, fence, run_at, cancel_requested, origin_kind,"
    " created_at, updated_at, finished_at, awaited) values (2000, gen_random_uuid(),"
    " 'webhooks.acme', 'webhook.deliver', 1, '{}', 0, 'succeeded', 1, 0, 1, now(), false, 'api',"
    " now(), now(), now(), false)"
)
_CHUNK = (
    "insert into inboxd.events (type, topic, mode, ordering_key)"
    " values ('old.type', 'few', 'batch', 'k');"
    "update inboxd.events set position = 1, head = true, run_at = now() + interval '1 day'"
    " where ordering_key = 'k'"
)

_BATCH = """select inboxd.send_batch('mails', '[{"type": "a.do", "queue": "default"}]')"""
_STEPS = """'[{"name": "a", "type": "a.do", "queue": "default"}]'"""
_WORKFLOW = (
    f"select inboxd.send_workflow('seed', {_STEPS});"
    "update inboxd.commands set status = 'failed' where batch_id = 1; select inboxd.fold_batch(1)"
)
_STREAM = (
    "insert into inboxd.stream_positions (source, stream, position) values ('bets', 'BETS', 7)"
)
_RECEIPT = (
    "insert into inboxd.kept_receipts (receipt_id, received_at, source, outcome, event_ids, body,"
    " body_bytes, content_type, headers)"
    f""" values ('{_EVENT}', now(), 'psp', 'stored', '{{}}', '{{"n": 1}}', 8, 'application/json',"""
    """ '{"webhook-id": "msg_1"}')"""
)
_DISCARD = {"word": "discard", "reason": "it came again"}


def _ordered(status: str) -> str:
    """SQL that orders a bulk action and sets its status."""
    return (
        "insert into inboxd.actions (kind, verb, selection, actor, audit_id, status, goes_on_as,"
        " note, starts_at, next_at, above, first_id, last_id, counted, whole)"
        """ values ('command', 'replay', '{"statuses": ["failed"]}', 'ana', 0, """
        f"'{status}', case '{status}' when 'paused' then 'running' end, 'why', now(), now(), 0, 1,"
        " 9, 9, true)"
    )


CASES = [
    ActionCase(f"/act/events/replay?id={_EVENT}", before=_FAILED_EVENT),
    ActionCase(f"/act/events/dismiss?id={_EVENT}", before=_FAILED_EVENT),
    ActionCase(f"/act/events/reschedule?id={_EVENT}", {"at": "2h"}, before=_WRITTEN),
    ActionCase("/act/commands/replay?id=1", before=_FAILED),
    ActionCase("/act/commands/dismiss?id=1", before=_FAILED),
    ActionCase("/act/commands/cancel?id=1"),
    ActionCase("/act/commands/reschedule?id=1", {"at": "2h"}),
    ActionCase("/act/commands/prioritize?id=1", {"priority": "7"}),
    ActionCase("/act/commands/replay-with?id=1", before=_FAILED),
    ActionCase("/act/commands/edit?id=1", {"priority": "9"}),
    ActionCase("/act/failures/archive?group=f1", before=_GROUP),
    ActionCase("/act/failures/unarchive?group=f1", before=f"{_GROUP}; {_ARCHIVED}"),
    ActionCase("/act/events/replay-all", before=_FAILED_EVENT),
    ActionCase("/act/events/dismiss-all", before=_FAILED_EVENT),
    ActionCase("/act/events/reschedule-all", {"at": "2h"}, before=_WRITTEN),
    ActionCase("/act/commands/replay-all", {"rate": "7", "delay": "1h"}, before=_FAILED),
    ActionCase("/act/commands/dismiss-all", before=_FAILED),
    ActionCase("/act/commands/cancel-all"),
    ActionCase("/act/commands/reschedule-all", {"at": "2h"}),
    ActionCase("/act/commands/prioritize-all", {"priority": "7"}),
    ActionCase("/act/action/pause?action=1", before=_ordered("running")),
    ActionCase("/act/action/resume?action=1", before=_ordered("paused")),
    ActionCase("/act/action/abort?action=1", before=_ordered("scheduled")),
    ActionCase("/act/batch/cancel?id=1", before=_BATCH),
    ActionCase("/act/batch/close?id=1", before="select inboxd.open_batch('big')"),
    ActionCase("/act/workflow/resume?id=1", before=_WORKFLOW),
    ActionCase("/act/stream/reset?source=bets&stream=BETS", {"to": "newest"}, before=_STREAM),
    ActionCase("/act/pause?kind=source&name=hook", {"mode": "hold"}),
    ActionCase("/act/resume?kind=queue&name=default", before=_PAUSED),
    ActionCase("/act/flush?topic=few", before=_CHUNK),
    ActionCase("/act/unsubscribe?topic=few"),
    ActionCase("/act/run?schedule=nightly", before="update inboxd.schedules set last_at = now()"),
    ActionCase("/act/schedules/add", {"name": "weekly", "type": "a.do", "cron": "0 4 1 1 *"}),
    ActionCase("/act/schedules/change?schedule=by-hand", {"priority": "9"}),
    ActionCase("/act/schedules/remove?schedule=by-hand"),
    ActionCase("/act/breaker?name=brevo&mode=open"),
    ActionCase("/act/endpoint/disable?name=acme"),
    ActionCase("/act/endpoint/enable?name=acme", before=_DISABLED),
    ActionCase("/act/endpoint/resend?name=acme&id=2000", before=_DELIVERED),
    ActionCase(
        "/act/endpoint/add",
        {"name": "crm", "url": "https://crm.example/in", "types": "user.*"},
        status=200,
    ),
    ActionCase("/act/endpoint/change?name=acme", {"rate": "10/s"}),
    ActionCase("/act/endpoint/rotate?name=acme", {"keep": "1h"}, status=200),
    ActionCase("/act/endpoint/remove?name=acme"),
    ActionCase(
        f"/act/webhooks/replay?id={_EVENT}&to=/events",
        {"url": "http://127.0.0.1:9/in"},
        before=_RECEIPT,
    ),
    ActionCase("/act/emit", {"type": "a.happened", "payload": "{}"}),
    ActionCase("/act/send", {"type": "a.do", "payload": "{}"}),
    ActionCase(f"/act/spool/drain?host={HOST}"),
    ActionCase(f"/act/spool/insert?host={HOST}&name={APART}"),
    ActionCase(f"/act/spool/discard?host={HOST}&name={APART}", _DISCARD),
    ActionCase(f"/act/spool/discard-folder?host={HOST}&name={GONE}", _DISCARD),
    ActionCase("/act/erase?tenant=acme", {"unsettled": "1"}),
]
# Values that no browser sends in a field that the visitor has not typed in.
GARBLED = ("x", "\0", "2026-13-45", "2026-01-01T00:00:00", "0001-01-01T00:00:00+14:00")


@pytest.fixture
async def site(database: Database) -> AsyncIterator[Visited]:
    await database.execute(SETTING)
    async with visiting(database, users=[user("ada", "admin"), user("bob", "admin")]) as site:
        yield site


async def _shown(client: httpx.AsyncClient, case: ActionCase) -> tuple[Asked, dict[str, str]]:
    """The page whose form does the action: for an edit the second one, which shows the changes."""
    asked = await ask(client, case.path)
    if case.path.startswith(("/act/commands/replay-with", "/act/commands/edit")):
        text = (await confirm(client, asked, **case.typed)).text
        asked = Asked(Read(text).text, text, ReadForm(text))
    return asked, case.typed


def test_each_action_has_a_case() -> None:
    assert {each.path.partition("?")[0] for each in CASES} == {each.path for each in ACTIONS}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.path)
async def test_a_garbled_forged_or_repeated_form_does_nothing(
    database: Database, case: ActionCase, tmp_path: Path
) -> None:
    await database.execute(SETTING)
    at_hand: dict[str, Any] = {"spool": host_spool(tmp_path / "spool"), "local_role": "admin"}
    if case.before:
        await database.execute(case.before)
    async with visiting(database, **at_hand) as site, site.client() as ada:
        asked, typed = await _shown(ada, case)
        form = asked.form.fields | typed
        hidden = [name for name in ("once", "seen", "agreed", "mode", "unsettled") if name in form]
        assert {"once", "seen"} <= set(hidden)
        for name in hidden:
            if name == "seen" and not form["seen"]:
                continue  # the page showed no state that could have changed
            for value in GARBLED[:2] if name == "once" else GARBLED:
                sent = {**form, "once": str(uuid7()), name: value}
                answer = await ada.post(case.path, data=sent, headers=SAME)
                refused = 200 if name == "agreed" and "\0" not in value else 400
                assert answer.status_code in (refused, 409), (name, value, answer.status_code)
                assert Read(answer.text).text, (name, value)
        for each in typed:
            answer = await ada.post(case.path, data={**form, each: "a\0b"}, headers=SAME)
            assert (answer.status_code, "NUL" in answer.text) == (400, True), each
        forged = await ada.post(case.path, data=form, headers={"sec-fetch-site": "cross-site"})
        assert (forged.status_code, "another site" in forged.text) == (403, True)
        assert await audit(database) == []
        done = await ada.post(case.path, data=form, headers=SAME)
        assert done.status_code == case.status, Read(done.text).text
        assert len(await audit(database)) == 1
        again = await ada.post(case.path, data=form, headers=SAME)
        assert (again.status_code, "confirmed before" in again.text) == (409, True)
    async with visiting(database, **at_hand) as other, other.client() as client:
        elsewhere = await client.post(case.path, data=form, headers=SAME)
        assert elsewhere.status_code in (303, 404, 409), Read(elsewhere.text).text
        changed = elsewhere.status_code == 303
        # The row has changed, so the form is refused; an erasure finds no more rows and succeeds.
        assert changed == case.path.startswith("/act/erase")
    assert len(await audit(database)) == 1 + changed


# Two confirm at once from one state: address, the first one's change, SQL to run before.
AT_ONCE = [
    ("/act/resume?kind=queue&name=default", "delete from inboxd.controls", _PAUSED),
    ("/act/breaker?name=brevo&mode=closed", "update inboxd.breakers set mode = 'open'", ""),
    (
        "/act/endpoint/disable?name=acme",
        f"{_DISABLED}, changed_at = clock_timestamp()",
        "",
    ),
    (
        "/act/endpoint/disable?name=acme",
        "update inboxd.endpoints set changed_at = clock_timestamp()",
        "",
    ),
]


@pytest.mark.parametrize(("path", "first", "before"), AT_ONCE)
async def test_one_of_two_simultaneous_actions_wins(
    database: Database, site: Visited, path: str, first: str, before: str
) -> None:
    """The second waits for the lock of the first, whose change its page has not shown."""
    if before:
        await database.execute(before)
    async with site.client() as ada, database.connect() as other:
        await sign_in(ada, "ada")
        asked = await ask(ada, path)
        answers: list[httpx.Response] = []

        async def second() -> None:
            answers.append(await confirm(ada, asked))

        async with anyio.create_task_group() as tasks, other.transaction():
            await other.execute(first)
            tasks.start_soon(second)
            await lock_awaited(database)
        assert answers[0].status_code == 409, Read(answers[0].text).text
    assert await audit(database) == []


async def test_a_queue_that_was_paused_again_meanwhile_is_not_resumed(
    database: Database, site: Visited
) -> None:
    await database.execute(_PAUSED)
    async with site.client() as ada:
        await sign_in(ada, "ada")
        asked = await ask(ada, "/act/resume?kind=queue&name=default")
        await database.execute("delete from inboxd.controls")
        await database.execute(_PAUSED)
        refused = await confirm(ada, asked)
        assert (refused.status_code, "paused again" in refused.text) == (409, True)
    assert await database.fetchval("select count(*) from inboxd.controls") == 1


async def test_the_result_is_shown_once_to_the_visitor_who_acted(
    database: Database, site: Visited
) -> None:
    await send(database, 1)
    async with site.client() as ada, site.client() as bob:
        await sign_in(ada, "ada")
        await sign_in(bob, "bob")
        done = await confirm(ada, await ask(ada, "/act/commands/cancel?id=3"))
        cookie = re.search("inboxd_told=([^;]+)", done.headers["set-cookie"])
        assert cookie is not None
        bob.cookies.set("inboxd_told", cookie[1])
        assert 'id="told"' not in (await bob.get("/commands/3")).text
        uuid = await database.fetchval(
            "select command_id from inboxd.commands_history where id = 3"
        )
        for path in ("/commands/3.json", f"/commands/{uuid}", "/audit.json"):
            assert "inboxd_told" not in (await ada.get(path)).headers.get("set-cookie", "")
        assert "inboxd_told" not in (await ada.head("/commands/3")).headers.get("set-cookie", "")
        live = await ada.get("/commands/3", headers={"x-revision": "another"})
        assert "inboxd_told" not in live.headers.get("set-cookie", "")
        assert "Cancelled: 1." in (await ada.get("/commands/3")).text
        assert 'id="told"' not in (await ada.get("/commands/3")).text
    async with site.client() as ada:  # a page of an error shows the result once as well
        await sign_in(ada, "ada")
        await confirm(ada, await ask(ada, "/act/commands/cancel?id=1"))
        assert "Cancelled: 1." in (await ada.get("/commands/999")).text
        assert 'id="told"' not in (await ada.get("/commands/999")).text
        assert await act(ada, "/act/commands/cancel?id=2") == "Cancelled: 1."
