"""Where tests are: a module's beside its namesake, a phenomenon's in the table, none too long."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "inboxd"
PAGE, PROMISES = ROOT / "docs/project-tests.md", ROOT / "docs/promises.md"
LONGEST = 500

# Folders that mirror one of the package; what is no module's there is in the table.
MIRRORS = {
    "unit": "",
    "store": "store",
    "cli": "cli",
    "embedded": "embedded",
    "testing": "testing",
}
# Folders of phenomena: each of their files is in the table.
PHENOMENA = (
    *("chaos", "daemon", "databases", "faults", "gate", "machine", "plans", "producers"),
    "receiver",
)

_ROW = re.compile(r"^\| \[`([\w/]+\.py)`\]\(\.\./tests/\1\) \| .+ \| ([\d, ]*|-) \|$", re.MULTILINE)


def _tests(folder: str) -> list[Path]:
    return sorted((ROOT / "tests" / folder).rglob("test_*.py"))


def _has_module(test: Path, room: Path) -> bool:
    """Whether a module of the room has the test's name, or the beginning of it."""
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
def test_no_file_is_too_long_to_be_read(folder: str) -> None:
    files = {file: file.read_text().count("\n") for file in (ROOT / folder).rglob("*.py")}
    assert len(files) > 10
    assert {str(file): lines for file, lines in files.items() if lines > LONGEST} == {}


def test_a_unit_test_stands_where_its_module_does() -> None:
    assert {file for file in _without_module() if file.startswith("unit/")} == set()


def test_the_table_has_every_file_of_a_phenomenon_with_its_promises() -> None:
    shown = dict(_ROW.findall(PAGE.read_text()))
    phenomena = {str(f.relative_to(ROOT / "tests")) for name in PHENOMENA for f in _tests(name)}
    assert set(shown) == phenomena | _without_module()
    named = _promises()
    expected = {file: ", ".join(map(str, sorted(named.get(file, ())))) or "-" for file in shown}
    assert shown == expected
