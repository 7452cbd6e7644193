"""SECURITY.md tells how to report, and what is promised against each attacker, with tests."""

import re
from pathlib import Path

from tests.store.test_role_table import ROLES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "SECURITY.md").read_text()
WHO = {
    *("stranger", "sender", "target", "producer", "receiver", "viewer", "operator"),
    *("neighbour", "database's other roles", "plugin"),
}


def rows() -> list[list[str]]:
    """The rows of the table: attacker, access, promised, not promised, tests."""
    table = PAGE.partition("## Promises against each attacker")[2].partition("\n## ")[0]
    lines = [line for line in table.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_each_attacker_has_a_row() -> None:
    assert all(len(row) == 5 for row in rows())
    named = " ".join(row[0] for row in rows())
    assert {each for each in WHO if each not in named} == set()
    assert "Not as a public issue" in PAGE


def test_each_role_of_the_database_is_named() -> None:
    """The worker's role is also the plugin's."""
    has = " ".join(row[1] for row in rows())
    assert [role for role in ROLES if role != "worker" and f"`inboxd_{role}`" not in has] == []


def test_tests_of_each_promise_exist() -> None:
    for who, _, promised, _, held in rows():
        files = re.findall(r"`(tests/[^`]+)`", held)
        assert bool(files) == (promised != "-"), who
        for each in files:
            path = ROOT / each
            assert path.is_dir() or path.is_file(), each
            names = path.glob("test_*.py") if path.is_dir() else [path]
            assert any("def test_" in file.read_text() for file in names), each
