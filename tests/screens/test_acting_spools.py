"""The spool of the screens' host: shown, drained, inserted, discarded; other spools named."""

import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from inboxd.admin.screens.actions import spools
from inboxd.daemon import hosted_spool, starting
from inboxd.daemon.hosted_spool import HostedSpool
from inboxd.daemon.process import Process
from inboxd.inbound.spool.folder import drain_lock, lock_of
from inboxd.settings import Settings
from tests.screens.confirming import act, ask, confirm
from tests.screens.reading import Read
from tests.screens.test_acting import audit
from tests.screens.visiting import Visited, sign_in, user, visiting
from tests.support import Database
from tests.support.receipts import receipt, received_ago
from tests.support.spooled import APART, GONE, HOST, host_spool, leave_apart, spool

pytestmark = pytest.mark.anyio

DRAIN = f"/act/spool/drain?host={HOST}"
INSERT = f"/act/spool/insert?host={HOST}&name={APART}"
DISCARD = f"/act/spool/discard?host={HOST}&name={APART}"
FOLDER = f"/act/spool/discard-folder?host={HOST}&name={GONE}"
LOST = {"word": "discard", "reason": "it came again"}


@pytest.fixture
def hosted(tmp_path: Path) -> HostedSpool:
    """A spool of this host with two receipts: one waits, one is set apart."""
    return host_spool(tmp_path)


@pytest.fixture
async def site(database: Database, hosted: HostedSpool) -> AsyncIterator[Visited]:
    users = [user("ada", "admin"), user("bob", "operator")]
    async with visiting(database, spool=hosted, users=users) as site:
        yield site


@pytest.fixture
async def ada(site: Visited) -> AsyncIterator[httpx.AsyncClient]:
    async with site.client() as client:
        await sign_in(client, "ada")
        yield client


async def _spool(client: httpx.AsyncClient) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (await client.get("/spools.json")).json()["spool"]
    return found


async def _stored(database: Database) -> int:
    return int(await database.fetchval("select count(*) from inboxd.receipts"))


async def test_the_spool_is_shown_to_all_and_its_actions_by_role(site: Visited) -> None:
    for name, offered in (("bob", {"drain", "insert"}), ("ada", {"drain", "insert", "discard"})):
        async with site.client() as client:
            await sign_in(client, name)
            page = (await client.get("/spools")).text
            for text in (
                "On this host: node",
                "gone",
                "the database refuses it",
                "psp",
                GONE[:12],
            ):
                assert text in Read(page).text, text
            for each in ("drain", "insert", "discard"):
                assert (f"/act/spool/{each}" in page) == (each in offered), (name, each)
            assert "tries at once" in page
            found = await _spool(client)
            assert found["sources"] == ["psp"]
            [folder] = found["folders"]
            assert (folder["waiting"], folder["set_apart"], folder["owner"]) == (1, 1, "gone")
            [item] = found["set_apart"]
            assert item.keys() == {
                *("name", "reason", "receipt_id", "source", "received_at", "bytes", "folder"),
            }


async def test_a_spool_is_drained_with_an_audit_entry(
    database: Database, ada: httpx.AsyncClient
) -> None:
    assert await act(ada, DRAIN, reason="now") == "Drained: 1. Set apart: 0."
    assert await _stored(database) == 1
    [(actor, action, target, reason, count)] = await audit(database)
    assert (actor, action, reason, count) == ("user ada", "drain", "now", 1)
    assert target == f"spool of {os.uname().nodename}"
    assert (await _spool(ada))["sources"] == []
    again = await ada.get(DRAIN)
    assert (again.status_code, "nothing waits" in again.text.lower()) == (409, True)


async def test_a_drain_that_takes_too_long_says_how_far_it_came(
    ada: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, database: Database
) -> None:
    monkeypatch.setattr(spools, "_DRAIN_SECONDS", 0.0)
    told = await act(ada, DRAIN)
    assert told.startswith("Drained so far: 0. Set apart: 0. The rest waits")
    assert (await _stored(database), await audit(database)) == (0, [])
    monkeypatch.undo()
    assert await act(ada, DRAIN) == "Drained: 1. Set apart: 0."


async def test_the_process_that_drains_already_is_named(
    database: Database, ada: httpx.AsyncClient, tmp_path: Path
) -> None:
    asked, inserting = await ask(ada, DRAIN), await ask(ada, INSERT)
    discarding, folder = await ask(ada, DISCARD), await ask(ada, FOLDER)
    lock = drain_lock(tmp_path)
    for each, typed in ((asked, {}), (inserting, {}), (discarding, LOST), (folder, LOST)):
        refused = await confirm(ada, each, **typed)
        told = f"process {os.getpid()} drains this spool"
        assert (refused.status_code, told in refused.text.lower()) == (409, True), refused.text
    lock.release()
    assert (await audit(database), await _stored(database)) == ([], 0)
    assert (await confirm(ada, asked)).status_code == 303


async def test_a_receipt_set_apart_is_inserted_or_discarded(
    database: Database, ada: httpx.AsyncClient, tmp_path: Path
) -> None:
    asked = await ask(ada, DISCARD)
    for told in ("receipt", "psp", "the database refuses it", "an answer 2xx", "cannot be undone"):
        assert told in asked.text, told
    assert await act(ada, INSERT) == "Inserted: stored."
    gone = await confirm(ada, asked, **LOST)
    assert (gone.status_code, "set apart with the name" in gone.text) == (404, True)
    leave_apart(tmp_path / "spools" / GONE, tmp_path, received_ago(90), "too old", 43)
    other = DISCARD.replace(APART, f"{GONE}/43")
    for typed, told in (
        ({"word": "discard"}, "give a reason"),
        ({"word": "Discard it", "reason": "why"}, "type &#39;discard&#39;"),
    ):
        again = await confirm(ada, await ask(ada, other), **typed)
        assert (again.status_code, told in again.text.lower()) == (400, True), again.text
    assert await act(ada, other, **LOST) == f"Discarded: {GONE}/43."
    assert [line[1] for line in await audit(database)] == ["drain", "discard"]
    assert (await _spool(ada))["set_apart"] == []


async def test_bytes_that_are_no_receipt_can_only_be_discarded(
    ada: httpx.AsyncClient, tmp_path: Path
) -> None:
    (tmp_path / "spools" / GONE / "apart" / f"{APART}.bytes").write_bytes(b"half of it")
    page = (await ada.get("/spools")).text
    assert "/act/spool/insert" not in page
    refused = await ada.get(INSERT)
    assert (refused.status_code, "cannot be read as a receipt" in refused.text) == (409, True)
    assert "no longer be read" in (await ask(ada, DISCARD)).text


async def test_a_folder_is_discarded_if_unchanged_and_without_a_process(
    database: Database, ada: httpx.AsyncClient, tmp_path: Path
) -> None:
    folder = tmp_path / "spools" / GONE
    asked = await ask(ada, FOLDER)
    assert "Receipts that wait in it: 1; set apart: 1. All of them are lost." in asked.text
    owner = lock_of(folder)
    lives = await confirm(ada, asked, **LOST)
    assert (lives.status_code, "owns this folder" in lives.text) == (409, True)
    assert "discard-folder" not in (await ada.get("/spools")).text
    assert (await ada.get(FOLDER)).status_code == 409
    owner.release()
    spool(tmp_path, receipt()).release()
    changed = await confirm(ada, asked, **LOST)
    assert (changed.status_code, "2 receipts wait there now" in changed.text) == (409, True)
    assert (folder.exists(), await audit(database)) == (True, [])
    told = await act(ada, FOLDER, **LOST)
    assert told == f"Discarded: folder {GONE}. Receipts that waited there: 2."
    [(_, action, target, _, count)] = await audit(database)
    assert (action, target, count) == ("discard", f"spool folder {GONE}", 2)
    assert not folder.exists()


async def test_a_folder_too_large_to_read_is_neither_counted_nor_discarded(
    ada: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosted_spool, "MOST_BYTES", 10)
    assert (await _spool(ada))["folders"][0]["waiting"] is None
    assert "not counted" in (await ada.get("/spools")).text
    refused = await ada.get(FOLDER)
    assert (refused.status_code, "to be counted here" in refused.text) == (409, True)
    assert await act(ada, DRAIN) == "Drained: 1. Set apart: 0."


async def test_a_page_lists_a_bounded_number_of_receipts_set_apart(
    ada: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    leave_apart(tmp_path / "spools" / GONE, tmp_path, receipt(), "too", 43)
    monkeypatch.setattr(hosted_spool, "MOST_APART", 1)
    assert len((await _spool(ada))["set_apart"]) == 1
    assert "and 1 more" in (await ada.get("/spools")).text


async def test_without_a_spool_the_page_names_the_command_and_its_host(
    database: Database, hosted: HostedSpool
) -> None:
    await database.execute(
        "insert into inboxd.receivers (id, name, host, pid, version, sources, state, beat_at,"
        " spooled) values (gen_random_uuid(), 'door', 'node-c', 7, '1', '{hook}', 'running', now(),"
        " '{hook}')"
    )
    for spool_, told in ((None, "has no spool;"), (hosted, "is on node;")):
        async with (
            visiting(database, spool=spool_, local_role="admin") as site,
            site.client() as client,
        ):
            page = await client.get("/spools")
            assert "what waits on node-c, run these commands there" in Read(page.text).text
            assert ("does not receive" in page.text) == (spool_ is None)
            for path, command in (
                (DRAIN, "inboxd spool drain"),
                (INSERT, f"inboxd spool drain --apart {APART}"),
                (DISCARD, f"inboxd spool discard {APART} --reason"),
                (FOLDER, f"inboxd spool discard {GONE} --folder"),
            ):
                answer = await client.get(path.replace("=node", "=node-c"))
                text = Read(answer.text).text
                assert answer.status_code == 409, text
                assert told in text, text
                assert "node-c" in text, text
                assert command in text, text


async def test_an_unreadable_disk_is_a_sentence_on_the_page(
    ada: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> list[object]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(hosted_spool, "views", fail)
    page = await ada.get("/spools")
    assert "The spool cannot be read: Permission denied" in Read(page.text).text


def test_a_receiving_process_gives_its_spool_to_the_screens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosted: list[Any] = []

    def host(_: Process, *programs: Any) -> int:
        hosted.extend(programs)
        return 0

    monkeypatch.setattr(Process, "host", host)
    monkeypatch.setattr(starting, "_configure_log", lambda _: None)
    for receives, path in ((True, str(tmp_path)), (True, None), (False, str(tmp_path))):
        sections: Any = {
            "database": {"dsn": "postgresql:///x"},
            "inbound": {"http": {"enabled": receives}, "spool": {"path": path}},
            "admin": {"enabled": True},
        }
        settings = Settings.merged(sections, {})
        starting.run(settings)
        found = hosted[-1]._spool
        assert (found is not None) == (receives and path is not None)
        assert found is None or found.host == os.uname().nodename
        starting.administer(settings)
        assert hosted[-1]._spool is None
