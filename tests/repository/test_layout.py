"""Places of tests: beside the module of the same name, or in the table; and their length."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "inboxd"
PAGE = ROOT / "docs/contributing/project-tests.md"
PROMISES = ROOT / "docs/contributing/promises.md"
LONGEST = 500

# Folders that mirror a package; tests without a module are in the table.
MIRRORS = {
    "unit": "",
    "store": "store",
    "cli": "cli",
    "features": "features",
    "main": "main",
    "embedded": "embedded",
    "testing": "testing",
}
# Folders of phenomena: each of their files is in the table.
PHENOMENA = (
    *("chaos", "daemon", "databases", "faults", "gate", "machine", "plans", "producers"),
    "receiver",
)

_ROW = re.compile(
    r"^\| \[`([\w/]+\.py)`\]\(\.\./\.\./tests/\1\) \| .+ \| ([\d, ]*|-) \|$", re.MULTILINE
)


def _tests(folder: str) -> list[Path]:
    return sorted((ROOT / "tests" / folder).rglob("test_*.py"))


def _has_module(test: Path, room: Path) -> bool:
    """Whether a module of `room` has the name of the test, or the first words of it."""
    name = test.stem.removeprefix("test_")
    words = name.split("_")
    stems = ("_".join(words[:count]) for count in range(1, len(words) + 1))
    return any((room / f"{stem}.py").exists() or (room / stem).is_dir() for stem in stems)


def _without_module() -> set[str]:
    found = set()
    for folder, room in MIRRORS.items():
        base = ROOT / "tests" / folder
        for test in _tests(folder):
            if not _has_module(test, PACKAGE / room / test.relative_to(base).parent):
                found.add(str(test.relative_to(ROOT / "tests")))
    return found


def _promises() -> dict[str, set[int]]:
    """The promises that name a test of each file."""
    named: dict[str, set[int]] = {}
    for section in PROMISES.read_text().split("\n## ")[1:]:
        number = int(section.partition(".")[0])
        for file in re.findall(r"`tests/([\w/]+\.py)::", section):
            named.setdefault(file, set()).add(number)
    return named


@pytest.mark.parametrize("folder", ["inboxd", "tests", "examples", "benchmarks"])
def test_files_have_a_maximum_length(folder: str) -> None:
    files = {file: file.read_text().count("\n") for file in (ROOT / folder).rglob("*.py")}
    assert len(files) > 10
    assert {str(file): lines for file, lines in files.items() if lines > LONGEST} == {}


def test_unit_tests_mirror_the_folders_of_modules() -> None:
    assert {file for file in _without_module() if file.startswith("unit/")} == set()


def test_table_lists_files_of_phenomena_with_their_promises() -> None:
    shown = dict(_ROW.findall(PAGE.read_text()))
    phenomena = {str(f.relative_to(ROOT / "tests")) for name in PHENOMENA for f in _tests(name)}
    assert set(shown) == phenomena | _without_module()
    named = _promises()
    expected = {file: ", ".join(map(str, sorted(named.get(file, ())))) or "-" for file in shown}
    assert shown == expected
