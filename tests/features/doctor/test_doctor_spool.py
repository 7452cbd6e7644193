"""`inboxd doctor` and `check` on the spool of a host: each test causes a real problem."""

from pathlib import Path
from typing import Any

import pytest

from inboxd.inbound.spool.checks import judge_spool, kind_of
from inboxd.settings import Settings
from tests.cli.conftest import Cli
from tests.cli.troubles import Report, Sql
from tests.support.receipts import receipt, received_ago
from tests.support.spooled import leave_apart, spool


def judged(path: Path, **more: Any) -> list[tuple[str, str]]:
    given = {"path": path, **more}
    settings = Settings.model_validate({"inbound": {"spool": given}})
    return [(each.verdict, each.found) for each in judge_spool(settings)]


def test_settings_without_spool_give_no_finding() -> None:
    assert list(judge_spool(Settings())) == []


def test_missing_folder_is_ok(tmp_path: Path) -> None:
    assert judged(tmp_path / "spool") == [("ok", "nothing waits")]


def test_age_of_spooled_receipts_decides_the_verdict(tmp_path: Path) -> None:
    owned = spool(tmp_path, receipt())
    [(verdict, found)] = judged(tmp_path)
    assert (verdict, found.startswith("1 receipt, the oldest for ")) == ("notice", True)
    owned.release()
    [(_, found)] = judged(tmp_path)
    assert found.endswith("; no receiver runs on this host")
    spool(tmp_path / "old", received_ago(1), receipt()).release()
    [(verdict, found)] = judged(tmp_path / "old")
    assert (verdict, found.startswith("2 receipts, the oldest for 1d")) == ("critical", True)


def test_damaged_and_set_apart_receipts_are_found(tmp_path: Path) -> None:
    owned = spool(tmp_path, receipt(), receipt())
    leave_apart(owned.folder, tmp_path, receipt(), "refused")
    [segment] = owned.folder.glob("*.segment")
    data = bytearray(segment.read_bytes())
    data[60] ^= 1
    segment.write_bytes(data)
    owned.release()
    findings = judged(tmp_path)
    assert findings[0] == ("warning", "1 set apart, 1 damaged: an operator has to decide")


def test_quota_above_the_disk_is_found(tmp_path: Path) -> None:
    [(verdict, found), _] = judged(tmp_path, quota=1 << 60)
    assert (verdict, "is more than the disk has" in found) == ("warning", True)


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs", "tmpfs", "overlay"])
def test_volatile_or_shared_file_system_is_found(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"1 0 8:1 / / rw - ext4 /dev/sda rw\n2 1 0:5 / {tmp_path} rw - {kind} x rw\n")
    monkeypatch.setattr("inboxd.inbound.spool.checks._MOUNTS", mounts)
    [(verdict, found), _] = judged(tmp_path / "spool")
    assert (verdict, f"is on {kind}" in found) == ("warning", True)


def test_deepest_mount_decides_the_kind() -> None:
    mounts = "1 0 8:1 / / rw - ext4 a rw\n2 1 0:5 / /var/lib rw shared:1 - xfs b rw\n"
    assert kind_of(Path("/var/lib/inboxd"), mounts) == "xfs"
    assert kind_of(Path("/var/library"), mounts) == "ext4"


def test_unusable_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("inboxd.inbound.spool.checks.views", refuse)
    monkeypatch.setattr("os.access", lambda *_: False)
    [(first, found), (second, unseen)] = judged(tmp_path)
    assert (first, "may not write to" in found) == ("warning", True)
    assert (second, "not seen" in unseen) == ("notice", True)


def test_doctor_checks_the_spool_and_spooling_receivers(
    cli: Cli, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INBOXD_INBOUND__SPOOL__PATH", str(tmp_path))
    spool(tmp_path, received_ago(1)).release()
    sql(
        "insert into inboxd.receivers (id, name, host, pid, version, spooled, trouble)"
        " values (gen_random_uuid(), 'door', 'h', 1, '0.1', '{bets}', null),"
        " (gen_random_uuid(), 'side', 'h', 2, '0.1', '{}', 'the spool cannot be synced')"
    )
    report = Report(cli)
    report.one("spool", "critical", "1 receipt, the oldest for 1d", "inboxd spool drain")
    found = {each["verdict"]: each["found"] for each in report.of("receivers")}
    assert "spools bets: webhooks of other hosts can overtake these" in found["notice"]
    assert "the spool cannot be synced" in found["critical"]


def test_check_reports_the_spool(
    run_cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INBOXD_DATABASE__DSN", "postgresql://127.0.0.1:1/none")
    spool(tmp_path / "spool", received_ago(1)).release()
    settings = tmp_path / "inboxd.toml"
    settings.write_text(
        f'[inbound.spool]\npath = "{tmp_path}/spool"\n[inbound.webhooks.bank]\ntype = "a"\n'
        'keys = [{ secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" }]\n'
    )
    checks = run_cli("check", "-c", settings, "--json").json["checks"]
    [line] = [each for each in checks if each["subject"] == "spool"]
    assert (line["verdict"], line["code"]) == ("fail", 1)
