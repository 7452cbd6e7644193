"""The overview: the banner of the doctor's gravest findings."""

from collections.abc import AsyncIterator

import httpx
import pytest

from inboxd.operations.doctor import Finding, Verdict
from inboxd.operations.doctor.look import Look
from tests.screens.reading import read

pytestmark = pytest.mark.anyio

FINDINGS = (
    Finding("room", Verdict.OK, "there is enough"),
    Finding("paused", Verdict.WARNING, "queue email by ana for 2d", "resume it"),
    Finding("spools", Verdict.NOTICE, "one waits", "look at it"),
    *(Finding(f"disk {n}", Verdict.WARNING, f"{n} GB are free <b>", "make room") for n in range(4)),
    Finding("rows", Verdict.CRITICAL, "they do not move", "look at locks"),
)
DOCTOR = "inboxd.admin.screens.pages.doctor"


class Doctor:
    """The only check of the doctor: FINDINGS. looks: how often it has run."""

    def __init__(self) -> None:
        self.looks = 0

    async def findings(self, look: Look) -> AsyncIterator[Finding]:
        assert look.schema == "inboxd"
        self.looks += 1
        for each in FINDINGS:
            yield each


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch) -> Doctor:
    """A doctor with enough time, however slow the machine is."""
    monkeypatch.setattr(f"{DOCTOR}._LEFT_SECONDS", 0.0)
    monkeypatch.setattr(f"{DOCTOR}._BRIEF_SECONDS", 3600.0)
    doctor = Doctor()
    monkeypatch.setattr("inboxd.operations.doctor.GROUPS", {"work": (doctor.findings,)})
    return doctor


async def test_the_gravest_findings_of_the_doctor_are_a_banner(
    screens: httpx.AsyncClient, doctor: Doctor
) -> None:
    page = await read(screens, "/")
    assert "Problems that the doctor found: 5" in page.text
    assert "critical · rows: they do not move warning · disk 0: 0 GB are free <b>" in page.text
    assert "disk 1" in page.text
    assert "disk 2" not in page.text
    assert "and 2 more" in page.text
    for left_out in ("there is enough", "one waits", "queue email by ana"):
        assert left_out not in page.text
    assert "/doctor" in page.links
    await read(screens, "/")
    assert doctor.looks == 1, "visitors share the examination"


async def test_an_examination_of_the_overview_is_cut_off(
    screens: httpx.AsyncClient, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{DOCTOR}._BRIEF_SECONDS", 0.0)
    assert "the doctor found" not in (await read(screens, "/")).text, "the first finding was ok"
    # The page of the doctor has a longer examination of its own.
    assert "they do not move" in (await read(screens, "/doctor")).text


async def test_an_overview_without_time_left_begins_no_examination(
    screens: httpx.AsyncClient, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{DOCTOR}._LEFT_SECONDS", 3600.0)
    for _ in range(2):
        assert "Throughput" in (await read(screens, "/")).text
    assert doctor.looks == 0
