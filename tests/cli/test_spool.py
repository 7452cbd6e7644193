"""`inboxd spool`: lists, shows, verifies, drains and discards receipts on this host's disk."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inboxd.errors import UsageError
from inboxd.inbound.spool import operate
from inboxd.inbound.spool.folder import drain_lock
from tests.cli.conftest import Cli
from tests.support.receipts import receipt, received, received_ago
from tests.support.spooled import leave_apart, spool
from tests.support.verdicts import safety

Sql = Callable[..., list[Any]]
WHY = ("--reason", "it came again", "--yes")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set a spool of this host."""
    path = tmp_path / "spool"
    monkeypatch.setenv("INBOXD_INBOUND__SPOOL__PATH", str(path))
    return path


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set a database that does not answer."""
    monkeypatch.setenv("INBOXD_DATABASE__DSN", "postgresql://127.0.0.1:1/none")


def test_missing_spool_names_its_setting(run_cli: Cli) -> None:
    result = run_cli("spool", "list")
    assert result.code == 78
    assert "set inbound.spool.path" in result.err


@pytest.mark.usefixtures("away")
def test_folders_are_listed(run_cli: Cli, path: Path) -> None:
    assert run_cli("spool", "list", "--json").json["folders"] == []
    page = [receipt(), receipt()]
    alive, gone = spool(path, *page), spool(path, receipt(source="bank"))
    leave_apart(gone.folder, path, receipt(), "the database refuses it")
    gone.release()
    found = run_cli("spool", "list", "--json").json
    assert found["sources"] == ["bank", "psp"]
    folders = {each["folder"]: each for each in found["folders"]}
    one, two = folders[alive.folder.name], folders[gone.folder.name]
    assert (one["owner"], one["waiting"], one["set_apart"]) == ("alive", 2, 0)
    assert one["oldest"][:19] == page[0].received_at.isoformat()[:19]
    assert one["bytes"] > 300
    assert (two["owner"], two["waiting"], two["set_apart"]) == ("gone", 1, 1)
    assert [each["reason"] for each in found["set_apart"]] == ["the database refuses it"]
    assert "spooled: bank, psp" in run_cli("spool", "list").err
    alive.release()


@pytest.mark.usefixtures("away")
def test_receipts_are_shown_and_bodies_on_request(run_cli: Cli, path: Path) -> None:
    page = [receipt(), receipt(source="bank")]
    owned = spool(path, *page)
    name = leave_apart(owned.folder, path, received_ago(90), "too old")
    folder = owned.folder.name[:6]
    found = run_cli("spool", "show", folder, "--json").json
    assert [each["source"] for each in found["waiting"]] == ["psp", "bank"]
    assert found["waiting"][0]["event_ids"] == [str(page[0].events[0].event_id)]
    assert "body" not in found["waiting"][0]
    assert [(each["name"], each["reason"]) for each in found["set_apart"]] == [(name, "too old")]
    raw = run_cli("spool", "show", page[0].receipt_id, "--raw", "--json").json
    assert (raw["body"], raw["headers"]) == ({"came": "so"}, {"webhook-id": "msg_1"})
    assert run_cli("spool", "show", name, "--json").json["reason"] == "too old"
    assert "came" not in run_cli("spool", "show", folder).out
    assert "came" in run_cli("spool", "show", folder, "--raw").out
    assert "There are more" in run_cli("spool", "show", folder, "--limit", 1).err
    lost = run_cli("spool", "show", "nothing")
    assert (lost.code, "there is no " in lost.err) == (1, True)
    owned.release()


@pytest.mark.usefixtures("away")
def test_flipped_bits_are_found(run_cli: Cli, path: Path) -> None:
    owned = spool(path, receipt(), receipt())
    owned.release()
    assert run_cli("spool", "verify").code == 0
    [segment] = owned.folder.glob("*.segment")
    data = bytearray(segment.read_bytes())
    data[40] ^= 4
    segment.write_bytes(data)
    result = run_cli("spool", "verify", "--json")
    [folder] = result.json["folders"]
    assert (result.code, result.json["damaged"], folder["frames"]) == (1, 1, 1)
    assert folder["damage"] == [f"{segment.name} at 0: its checksum is wrong"]
    assert run_cli("spool", "list", "--json").json["folders"][0]["damaged"] == 1


@pytest.mark.usefixtures("away")
def test_torn_end_is_reported_and_not_damage(run_cli: Cli, path: Path) -> None:
    """After a SIGKILL a file ends in a partial receipt, which `list` and `drain` ignore."""
    owned = spool(path, receipt(), receipt())
    [segment] = owned.folder.glob("*.segment")
    segment.write_bytes(segment.read_bytes()[:-5])
    growing = run_cli("spool", "verify", "--json")
    assert (growing.code, growing.json["folders"][0]["torn"]) == (0, [])
    owned.release()
    result = run_cli("spool", "verify", "--json")
    [folder] = result.json["folders"]
    assert (result.code, result.json["damaged"], folder["frames"]) == (0, 0, 1)
    assert (folder["damage"], len(folder["torn"])) == ([], 1)
    assert folder["torn"][0].startswith(f"{segment.name} at ")
    assert "1 file torn at the end" in run_cli("spool", "verify").err


def test_spool_is_drained(cli: Cli, path: Path, sql: Sql) -> None:
    page = [receipt(received(payload={"n": n})) for n in range(3)]
    spool(path, *page).release()
    assert cli("spool", "drain", "--json").json == {"drained": 3, "set_apart": 0}
    found = sql("select receipt_id from inboxd.receipts order by stored_at, receipt_id")
    assert [row[0] for row in found] == [each.receipt_id for each in page]
    left = cli("spool", "list", "--json").json
    assert (left["sources"], [each["waiting"] for each in left["folders"]]) == ([], [0])
    assert cli("spool", "drain").out == "Drained: 0 receipts\n"
    [line] = sql("select action, count from inboxd.audit")
    assert tuple(line) == ("drain", 3), "an empty drain is not audited"


def test_receipts_older_than_the_partitions_are_drained(cli: Cli, path: Path, sql: Sql) -> None:
    """In a restored backup, partitions may begin later, or end before the outage."""
    page = [received_ago(9), received_ago(3), receipt(), received_ago(-30), receipt(source="bank")]
    spool(path, *page).release()
    assert cli("spool", "drain", "--json").json == {"drained": 5, "set_apart": 0}
    with safety():
        found = {row[0] for row in sql("select receipt_id from inboxd.receipts")}
        assert found == {each.receipt_id for each in page}
        assert len(sql("select from inboxd.events")) == 5
    assert cli("spool", "list", "--json").json["sources"] == []


def test_receipt_with_a_wrong_date_is_set_apart_and_inserted_by_insert(
    cli: Cli, path: Path, sql: Sql
) -> None:
    """The receipt is dated more than a year ahead; the receipts behind it are drained."""
    ahead, after = received_ago(-800), receipt()
    spool(path, ahead, after).release()
    assert cli("spool", "drain", "--json").json == {"drained": 1, "set_apart": 1}
    [apart] = cli("spool", "list", "--json").json["set_apart"]
    assert "more than a year from today" in apart["reason"]
    assert cli("spool", "drain", "--apart", apart["name"]).code == 0
    with safety():
        ids = {row[0] for row in sql("select event_id from inboxd.events")}
        assert ids == {each.events[0].event_id for each in (ahead, after)}


def test_draining_process_is_named(cli: Cli, path: Path) -> None:
    spool(path, receipt()).release()
    lock = drain_lock(path)
    result = cli("spool", "drain")
    lock.release()
    assert (result.code, f"process {os.getpid()} drains this spool" in result.err) == (1, True)


@pytest.mark.usefixtures("away")
def test_drain_and_discard_need_the_database(run_cli: Cli, path: Path) -> None:
    owned = spool(path, receipt())
    leave_apart(owned.folder, path, receipt(), "refused")
    owned.release()
    assert run_cli("spool", "drain").code == 69
    assert run_cli("spool", "discard", "42", *WHY).code == 69
    assert run_cli("spool", "discard", owned.folder.name, "--folder", *WHY).code == 69
    [folder] = run_cli("spool", "list", "--json").json["folders"]
    assert (folder["waiting"], folder["set_apart"]) == (1, 1)


def test_set_apart_receipts_are_inserted_by_insert(cli: Cli, path: Path, sql: Sql) -> None:
    """A receipt of a day without a partition gets an id of today."""
    old = received_ago(400)
    owned = spool(path)
    leave_apart(owned.folder, path, old, "it is older than the database's memory of receipts")
    owned.release()
    assert cli("spool", "drain", "--apart", "42", "--reason", "asked them").code == 0
    assert len(sql("select from inboxd.events where event_id = $1", old.events[0].event_id)) == 1
    [line] = sql("select action, target, reason, count from inboxd.audit")
    assert (line["action"], line["reason"], line["count"]) == ("drain", "asked them", 1)
    assert "of psp: it is older" in line["target"]
    assert cli("spool", "list", "--json").json["set_apart"] == []


def test_insert_can_be_repeated_after_a_crash(
    cli: Cli, path: Path, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file that could not be removed has the new id."""
    owned = spool(path)
    leave_apart(owned.folder, path, received_ago(400), "too old")
    owned.release()
    with monkeypatch.context() as broken:
        broken.setattr(operate, "_remove", _fail)
        assert cli("spool", "drain", "--apart", "42").code != 0
    assert cli("spool", "drain", "--apart", "42").code == 0
    assert len(sql("select from inboxd.receipts")) == 1


def _fail(_: object) -> None:
    raise UsageError("killed here")


def test_damaged_receipts_are_not_inserted(cli: Cli, path: Path) -> None:
    owned = spool(path)
    apart = owned.folder / "apart"
    (apart / "1-24.json").write_text('{"reason": "not a frame", "bytes": 3}')
    (apart / "1-24.bytes").write_bytes(b"abc")
    owned.release()
    result = cli("spool", "drain", "--apart", "1-24")
    assert (result.code, "is not a receipt (not a frame)" in result.err) == (1, True)
    assert cli("spool", "show", "1-24", "--raw", "--json").json["body"] == "abc"


def test_set_apart_receipts_are_discarded_with_a_reason(cli: Cli, path: Path, sql: Sql) -> None:
    owned = spool(path)
    given = receipt()
    leave_apart(owned.folder, path, given, "refused")
    owned.release()
    assert cli("spool", "discard", "42", "--yes").code == 2
    assert cli("spool", "discard", "42", "--reason", "x").code == 2
    looked = cli("spool", "discard", "42", "--dry-run", "--json").json
    assert looked["would_discard"]["receipt_id"] == str(given.receipt_id)
    assert cli("spool", "discard", "42", *WHY).out == f"Discarded: {42:020d}\n"
    [line] = sql("select action, target, reason from inboxd.audit")
    told = f"receipt {given.receipt_id}, set apart in a spool: refused"
    assert tuple(line) == ("discard", told, "it came again")
    assert list((owned.folder / "apart").iterdir()) == []


def test_folder_is_discarded_once_its_process_has_ended(cli: Cli, path: Path, sql: Sql) -> None:
    owned = spool(path, receipt(), receipt())
    name = owned.folder.name
    refused = cli("spool", "discard", name[:8], "--folder", *WHY)
    assert (refused.code, f"process {os.getpid()} is running" in refused.err) == (1, True)
    owned.release()
    looked = cli("spool", "discard", name[:8], "--folder", "--dry-run", "--json").json
    assert looked["would_discard"]["waiting"] == 2
    done = cli("spool", "discard", name[:8], "--folder", *WHY, "--json").json
    assert done["waiting"] == 2
    [line] = sql("select action, target, count from inboxd.audit")
    assert tuple(line) == ("discard", f"spool folder {name}", 2)
    assert not owned.folder.exists()


def test_other_users_are_refused(cli: Cli, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The receiver could not open files that root makes there."""
    spool(path, receipt()).release()
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    result = cli("spool", "drain")
    assert (result.code, "run the command as that user" in result.err) == (2, True)
