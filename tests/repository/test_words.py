"""Names have one meaning: class names are unique, and the words of the glossary are in use."""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import inboxd
from inboxd.store.files import migrations_folder, sql_files

PACKAGE = Path(inboxd.__file__).parent
ROOT = PACKAGE.parent

# Words of class names that are not in the glossary: plain English, and forms of its words.
_PLAIN = """
admission after allowance alone aside bodies by call choice context cooperative due end ended
expired expiries exporter failed finder folder judgement later leadership left limited log lone look
loss lost maker mark one order outgoing pace part plain processing progresses purger ready reaper
recovery removal report result runner sequential served settler settling sighting single sleep split
stopped stored thread time to unread unwritten version walk watch work written yield
"""

# Rejected words of the glossary that have another meaning elsewhere.
_ELSEWHERE = """
batch cluster complete consumer file kind listener lock message migration name node place queue task
worker
"""


@cache
def _classes() -> dict[str, list[str]]:
    """The places in which each class is defined."""
    found = defaultdict[str, list[str]](list)
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if (
                isinstance(node, ast.ClassDef) and node.name != "Meta"
            ):  # Django's own, in each model
                found[node.name].append(f"{file.relative_to(ROOT)}:{node.lineno}")
    return found


def _glossary() -> list[list[str]]:
    """The rows of the glossary: word, meaning, bearers, words to avoid."""
    table = (ROOT / "docs/contributing/glossary.md").read_text().partition("## Statuses")[0]
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in rows[1:]]


def test_no_two_classes_share_a_name() -> None:
    assert {name: where for name, where in _classes().items() if len(where) > 1} == {}


def test_each_word_of_the_glossary_exists_in_the_code() -> None:
    there = set(_classes()) | {"HotTable"}  # a type, not a class
    there |= {file.name for file in sql_files()}
    there |= {file.stem for file in (migrations_folder() / "functions").glob("*.sql")}
    table = ""
    tables = (PACKAGE / "store/schema.txt").read_text().partition("# constraints")[0]
    for line in tables.splitlines():
        if not line.startswith(("#", " ")):
            table = line
            there.add(table)
        elif line.startswith("  "):
            there.add(f"{table}.{line.split()[0]}")
    for word, _, bearers, _ in _glossary():
        named = re.findall(r"`([^`]+)`", bearers)
        assert named, word
        assert {
            each for each in named if each not in there and not (PACKAGE / each).is_file()
        } == set()


def test_names_of_worker_classes_use_words_of_the_glossary() -> None:
    known = {_singular(part) for row in _glossary() for part in re.findall(r"[a-z]+", row[0])}
    rooms = tuple(f"inboxd/{room}/" for room in ("events", "commands", "engine", "maintenance"))
    other = {
        _singular(part)
        for name, where in _classes().items()
        if where[0].startswith(rooms) and not name.startswith("_")
        for part in _parts(name)
    } - known
    assert other == set(map(_singular, _PLAIN.split())), (
        "left: new words; right: unused words of _PLAIN"
    )


def test_no_name_has_a_word_that_the_glossary_rejects() -> None:
    unused = {each for row in _glossary() for each in re.findall(r"[a-z]+", row[3])} - set(
        _ELSEWHERE.split()
    )
    files = [path.stem for path in PACKAGE.rglob("*") if path.suffix in {".py", ".sql"}]
    named = {name: {*_parts(name), *name.split("_")} for name in [*_classes(), *files]}
    assert {name: parts & unused for name, parts in named.items() if parts & unused} == {}


def _parts(text: str) -> list[str]:
    """The words of a class name."""
    return [each.lower() for each in re.findall(r"[A-Z][a-z]+", text)]


def _singular(word: str) -> str:
    return word.removesuffix("s")
