"""Each condition of each claim has a cause that covers it: a new one fails until it is mapped."""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import inboxd
from inboxd.commands.admission import Admission
from inboxd.commands.processing import CommandProcessing
from inboxd.engine.breakers import Breakers
from inboxd.engine.controls import Controls
from inboxd.events import page_order
from inboxd.events.chunks.cursors import ChunkCursors
from inboxd.events.processing import EventProcessing
from inboxd.events.relays.relay import RelayRunner
from inboxd.events.sources.served_lines import ServedLines
from inboxd.model.waiting import BRIEF, BRIEF_OF, OWN, TEXTS
from tests.store.statement_conditions import conditions_of, fingerprint_of, functions_of
from tests.store.waiting_conditions import CHUNKED, COMMANDS, KEYED, LANE, LINED
from tests.store.waiting_table import GATES, LOOKED_AT, PLUMBING, STATEMENTS

ROOT = Path(inboxd.__file__).parents[1]
# Statements that claim no rows of events or commands: schedules, bulk actions.
_OTHERS = {"claim_schedule", "claim_action"}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    f"{each.__module__}.{each.__qualname__}": each
    for each in (
        *(Admission.serves, Admission.has_room, Controls.allow, Controls.allow_pauses),
        *(Breakers.allow, ServedLines._is_open, ServedLines._is_ours, ServedLines._takes),
        *(RelayRunner._may_begin, RelayRunner._may_go_on, page_order.serves),
        *(ChunkCursors.allows, CommandProcessing.page, EventProcessing.page),
    )
}


def _asked(function: Callable[..., Any]) -> set[str]:
    """The conditions in a function's code, and in the values that it returns."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return {ast.unparse(part) for node in ast.walk(tree) for part in _parts(node)}


def _parts(node: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.If(test=asked) | ast.Return(value=ast.expr() as asked):
            yield from _operands(asked)
        case ast.Assign(value=ast.BoolOp() | ast.Compare() as asked):
            yield from _operands(asked)


def _operands(asked: ast.expr) -> Iterator[ast.expr]:
    match asked:
        case ast.BoolOp(values=values):
            for each in values:
                yield from _operands(each)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _operands(operand)
        case ast.Constant():
            return
        case _:
            yield asked


@pytest.mark.parametrize("file", STATEMENTS)
def test_each_condition_of_a_statement_is_covered(file: str) -> None:
    covered = [each for found in STATEMENTS[file].values() for each in found]
    assert len(covered) == len(set(covered))
    assert set(covered) == conditions_of((ROOT / file).read_text("utf-8"))


@pytest.mark.parametrize("file", STATEMENTS)
def test_changed_statement_is_reviewed_again(file: str) -> None:
    """A row may also be left out by a join, an order, or a condition that occurs elsewhere too."""
    found = fingerprint_of((ROOT / file).read_text("utf-8"))
    assert found == LOOKED_AT.get(file), (
        f"{file} has changed: does it leave out a row now without a cause that says so? "
        f"If not, its fingerprint in tests/store/waiting_table.py is {found}"
    )


def test_functions_of_the_statements_are_in_the_table() -> None:
    texts = [(ROOT / file).read_text("utf-8") for file in STATEMENTS]
    called = {f"migrations/functions/{name}.sql" for text in texts for name in functions_of(text)}
    assert called - STATEMENTS.keys() == {"migrations/functions/beginning.sql"}  # shortens a text


@pytest.mark.parametrize(
    ("keyword", "more"),
    [
        ("WHERE", "WHERE c.new_column IS NULL AND"),
        ("WHERE", "WHERE c.crashes = 0 AND"),
        ("WHERE", "JOIN gate USING (queue) WHERE"),
        ("WHERE", "CROSS JOIN gate WHERE"),
        ("WHERE", ", gate WHERE"),
        ("ORDER BY", "HAVING count(*) > 1 ORDER BY"),
        ("ORDER BY", "EXCEPT SELECT id FROM gate ORDER BY"),
        ("ORDER BY", "ORDER BY c.new_column,"),
        ("LIMIT", "OFFSET 1 LIMIT"),
    ],
)
@pytest.mark.parametrize("file", STATEMENTS)
def test_no_new_condition_escapes(file: str, keyword: str, more: str) -> None:
    """Wherever the condition is added, one of the two tests above fails."""
    text = (ROOT / file).read_text("utf-8")
    for found in re.finditer(rf"\b{keyword}\b", text):
        begin = text.rfind("\n", 0, found.start()) + 1
        if "--" in text[begin : found.start()]:
            continue
        changed = text[: found.start()] + more + text[found.end() :]
        assert fingerprint_of(changed) != LOOKED_AT[file]


@pytest.mark.parametrize("name", _FUNCTIONS)
def test_each_question_of_a_worker_is_covered(name: str) -> None:
    assert {each for found in GATES[name].values() for each in found} == _asked(_FUNCTIONS[name])


def test_every_claim_is_in_the_table() -> None:
    found = {
        file
        for pattern in ("claim*", "lease*", "try*", "due_heads*")
        for file in (ROOT / "inboxd/store/sql").glob(f"*/{pattern}.sql")
        if file.stem not in _OTHERS
    }
    assert {str(file.relative_to(ROOT)) for file in found} <= STATEMENTS.keys()


def test_causes_of_the_table_have_texts_and_tests() -> None:
    """Each cause has a text; a condition makes it true beside a real claim, or in its own test."""
    causes = {cause for table in (STATEMENTS, GATES) for found in table.values() for cause in found}
    causes -= {PLUMBING}
    assert causes <= TEXTS.keys()
    tried = {each.said for each in (*COMMANDS, *KEYED, *LANE, *LINED, *CHUNKED)}
    assert causes - tried == {
        "dead",
        "next",
        "ahead",
        "ahead in line",
        "ahead in bucket",
        "leased",
        "chunk",
        "disabled",
    }


def test_brief_texts_cover_all_causes() -> None:
    """The page for operators lists all brief texts."""
    assert not BRIEF.keys() & OWN
    assert BRIEF_OF.keys() <= TEXTS.keys()
    page = (ROOT / "docs/why.md").read_text("utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == BRIEF.keys() | OWN
