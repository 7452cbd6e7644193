"""`make ready`: the gate on the newest commit, and the tree that may be handed in."""

import os
import subprocess
from pathlib import Path

import anyio
import pytest

from tests.gate.conftest import FIRST_TIME_ONLY, Project
from tests.support import eventually
from tests.support.supervising import runs
from tests.support.waiting import patient

pytestmark = pytest.mark.timeout(300)

_LATE = (
    FIRST_TIME_ONLY.replace('Path("ran-once")', 'Path("{marker}")')
    + "\n    def test_in_time():\n        assert not the_first_time()\n"
)


def _ready(project: Project) -> str:
    return (project.folder / ".git/ready").read_text().strip()


def test_a_green_commit_is_ready(project: Project) -> None:
    project.plant("fine", "def test_fine():\n    pass\n")
    project.begin()
    found = project.call("bash", ".ci/ready")
    assert (found.code, found.closing) == (0, "1 passed, 0 failed")
    assert _ready(project) == project.git("rev-parse", "HEAD^{tree}")
    assert project.git("status", "--porcelain") == ""


def test_a_red_commit_is_not_ready(project: Project) -> None:
    project.plant("wrong", "def test_wrong():\n    assert False\n")
    project.begin()
    assert project.call("bash", ".ci/ready").code == 1
    assert not (project.folder / ".git/ready").exists()


def test_the_tested_tree_is_ready_and_not_a_later_commit(project: Project) -> None:
    project.plant(
        "meanwhile",
        f"""
    import subprocess
    def test_it():
        with Path({str(project.folder)!r}, "Makefile").open("a") as file:
            file.write("# later")
        commit = "git -c user.name=a -c user.email=a@example.org commit -q -a -m later"
        subprocess.run(commit.split(), cwd={str(project.folder)!r}, check=True)
    """,
    )
    project.begin()
    tested = project.git("rev-parse", "HEAD^{tree}")
    found = project.call("bash", ".ci/ready")
    assert found.code == 0
    assert "There are newer commits: they are not tested" in found.output
    assert _ready(project) != project.git("rev-parse", "HEAD^{tree}")
    project.git("checkout", "--quiet", tested, "--", "Makefile")
    assert _ready(project) == project.git("write-tree"), (
        "the tested tree, with a line of the ledger"
    )


def test_a_term_ends_the_gate_before_its_clone_is_removed(project: Project, tmp_path: Path) -> None:
    began = tmp_path / "began"
    project.plant(
        "waits",
        f"""
    import os, time
    def test_waits():
        Path({str(began)!r}).write_text(f"{{os.getpid()}} {{os.getcwd()}}")
        time.sleep(3600)
    """,
    )
    project.begin()
    environment = {"PATH": os.environ["PATH"], "INBOXD_CI_RUNS": str(project.runs)}
    ready = subprocess.Popen(
        ["/bin/bash", ".ci/ready"],
        cwd=project.folder,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )

    async def has_begun() -> bool:
        return began.exists() and " " in began.read_text()

    anyio.run(eventually, has_begun)
    pid, _, clone = began.read_text().partition(" ")
    ready.terminate()
    output, _ = ready.communicate(timeout=patient(60))
    assert "RED: the gate was interrupted" in output
    assert ready.returncode == 130
    assert not runs(int(pid))
    assert not Path(clone).exists()


def test_uncommitted_changes_are_refused(project: Project) -> None:
    project.plant("fine", "def test_fine():\n    pass\n")
    project.begin()
    (project.folder / "new.py").write_text("")
    found = project.call("bash", ".ci/ready")
    assert found.code == 1
    assert "new.py" in found.output
    assert not project.runs.exists()


def test_an_unsteady_test_is_recorded_and_part_of_the_ready_tree(
    project: Project, tmp_path: Path
) -> None:
    project.plant("late", _LATE.replace("{marker}", str(tmp_path / "marker")))
    project.begin()
    found = project.call("bash", ".ci/ready")
    assert found.code == 0
    assert "New unsteady tests" in found.output
    ledger = (project.folder / ".ci/unsteady.tsv").read_text()
    assert ledger.startswith("planted/test_late.py::test_in_time\t")
    assert _ready(project) == project.git("rev-parse", "HEAD^{tree}")
