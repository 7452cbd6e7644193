"""Editors of plugin authors: mypy --strict accepts right plugins, and finds mistakes."""

import re
from pathlib import Path

from tests.support.types import StrictTypes

FILES = Path(__file__).parents[1] / "typing"


def errors_of(name: str, strict: StrictTypes) -> set[tuple[int, str]]:
    """Line and code of each error that mypy reports for a file in tests/typing."""
    found = re.findall(rf"{name}:(\d+): error: .*\[([a-z-]+)\]", strict(FILES / name))
    return {(int(line), code) for line, code in found}


def expected(name: str) -> set[tuple[int, str]]:
    lines = (FILES / name).read_text().splitlines()
    marked = ((number, re.search(r"# E: (.+)", line)) for number, line in enumerate(lines, 1))
    return {(number, code) for number, found in marked if found for code in found[1].split()}


def test_a_right_plugin_is_accepted(strict: StrictTypes) -> None:
    assert errors_of("accepted.py", strict) == set()


def test_mistakes_are_found_at_their_lines(strict: StrictTypes) -> None:
    assert errors_of("refused.py", strict) == expected("refused.py")


def test_right_tests_of_a_plugin_are_accepted(strict: StrictTypes) -> None:
    assert errors_of("testing.py", strict) == set()


def test_mistakes_in_tests_of_a_plugin_are_found_at_their_lines(strict: StrictTypes) -> None:
    assert errors_of("testing_refused.py", strict) == expected("testing_refused.py")
