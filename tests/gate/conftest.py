"""A small project with a gate: planted tests, stages of its own, no environment to set up.

    project.plant("late", "def test_late(): raise Late")
    assert project.run().code == 1

The fixture `project` has no stages at first.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).parents[2]

_MAKEFILE = """
PYTEST := {python} -m pytest -p no:cacheprovider --import-mode=importlib
test:
	@PYTHONPATH={root} $(PYTEST) $(OPTIONS) $(or $(TESTS),planted)
good bad:
	@test $@ = good
"""
_STAGE = """
[[stage]]
name = "{name}"
make = ["test", "TESTS=planted/test_{name}.py"]
limit = 60
"""
_IDENTITY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "a"), ("EMAIL", "a@example.org"))
}
# For a planted test that fails only in its first run: later the marker file exists.
FIRST_TIME_ONLY = """
    def the_first_time():
        marker = Path("ran-once")
        found = marker.exists()
        marker.touch()
        return not found
"""


@dataclass(frozen=True)
class Outcome:
    """The output of a run of the gate, and its exit code."""

    code: int
    output: str

    @property
    def summary(self) -> list[str]:
        """The lines from the summary's title on."""
        lines = self.output.splitlines()
        titles = [number for number, line in enumerate(lines) if line.startswith("== ")]
        return lines[titles[-1] :]

    @property
    def closing(self) -> str:
        """The last line of the output."""
        return self.output.splitlines()[-1]

    def about(self, word: str) -> list[str]:
        """The lines of the summary that begin with a word."""
        return [line for line in self.summary if line.startswith(word)]


@dataclass
class Project:
    """A folder with a gate. settings: the text of its gate.toml."""

    folder: Path
    runs: Path
    settings: str = "deadline = 600\n"
    environment: dict[str, str] = field(default_factory=dict)

    def plant(self, name: str, code: str) -> None:
        """Add a stage with one file of tests."""
        head = "from pathlib import Path\nimport pytest\n"
        head += "from tests.support.verdicts import Late, Violation\n"
        (self.folder / f"planted/test_{name}.py").write_text(head + dedent(code))
        self.settings += _STAGE.format(name=name)

    def run(self) -> Outcome:
        """Run the gate as CI does."""
        self.write_settings()
        return self.call("bash", ".ci/run")

    def write_settings(self) -> None:
        """Write the settings to its gate.toml."""
        (self.folder / ".ci/gate.toml").write_text(self.settings)

    def write(self, name: str, text: str = "") -> None:
        """Write a file of the project."""
        file = self.folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)

    def git(self, *arguments: str) -> str:
        """The output of git in the folder."""
        command = ["git", "-C", str(self.folder), *arguments]
        environment = _plain(os.environ) | _IDENTITY
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        return done.stdout.strip()

    def begin(self) -> None:
        """Make a repository of it, with one commit."""
        self.write_settings()
        self.write(".gitignore", "__pycache__/\n")
        self.git("init", "--quiet")
        self.commit("planted")

    def commit(self, message: str) -> None:
        """Commit all files of the folder."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)

    def call(self, *command: str) -> Outcome:
        """Run a command in the folder, with the gate's own variables but none of the caller's."""
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=_plain(os.environ)
            | _IDENTITY
            | {"INBOXD_CI_RUNS": str(self.runs)}
            | self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return Outcome(done.returncode, done.stdout)


def _plain(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        k: v for k, v in environment.items() if not k.startswith(("INBOXD_", "PYTEST_", "MAKE"))
    }


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project that has no stages yet."""
    folder = tmp_path / "project"
    shutil.copytree(ROOT / ".ci", folder / ".ci", ignore=shutil.ignore_patterns("__pycache__"))
    for ledger in ("ledger.tsv", "unsteady.tsv"):
        (folder / ".ci" / ledger).write_text("")
    (folder / "planted").mkdir()
    hooks = (
        "from tests.support.failures import pytest_runtest_makereport\n"
        "from tests.support.time_limits import pytest_pyfunc_call\n"
    )
    (folder / "planted/conftest.py").write_text(hooks)
    (folder / "Makefile").write_text(_MAKEFILE.format(root=ROOT, python=sys.executable))
    return Project(folder, tmp_path / "runs")
