"""No decision rests on the words of an error: they depend on the language of a server or system.

Known limit: finds an error's text, or one of its textual fields, in a comparison, a search or a
match; not if the text was assigned to a variable before.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import inboxd

ROOT = Path(__file__).parents[2]
PACKAGE = Path(inboxd.__file__).parent
# Attributes that hold text for people.
WORDS = {"args", "context", "detail", "hint", "message", "reply_text", "strerror", "text"}
SEARCHES = {"match", "search", "fullmatch", "findall", "startswith", "endswith", "index", "find"}
# Exceptions without another solution; the code gives the reasons.
KNOWN = {
    # Errors of the NATS protocol have words, but no numbers.
    "brokers/nats/connection.py",
    # asyncio's own text with several error numbers.
    "brokers/causes.py",
    # Only the context of a lock error names the table, in the language of the server.
    "store/emitted.py",
}


def _caught(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """The name of each caught or given error, and the node in which the name is bound."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name, node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for each in (*node.args.args, *node.args.kwonlyargs):
                about = "" if each.annotation is None else ast.unparse(each.annotation)
                if "Exception" in about or "Error" in about or "Closed" in about:
                    yield each.arg, node


def _is_text_of(node: ast.AST, error: str) -> bool:
    """Whether an expression is, or contains, the text of an error."""
    for each in ast.walk(node):
        if (
            isinstance(each, ast.Call)
            and isinstance(each.func, ast.Name)
            and each.func.id in ("str", "repr")
            and any(isinstance(one, ast.Name) and one.id == error for one in each.args)
        ):
            return True
        if (
            isinstance(each, ast.Attribute)
            and each.attr in WORDS
            and isinstance(each.value, ast.Name)
            and each.value.id == error
        ):
            return True
    return False


def _decisions(tree: ast.Module) -> Iterator[int]:
    """The lines of decisions on the text of an error."""
    for error, where in _caught(tree):
        for node in ast.walk(where):
            if isinstance(node, ast.expr) and any(
                _is_text_of(each, error) for each in _asked(node)
            ):
                yield node.lineno


def _asked(node: ast.expr) -> list[ast.expr]:
    """The operands of a comparison or search."""
    match node:
        case ast.Compare():
            return [node.left, *node.comparators]
        case ast.Call(func=ast.Attribute(attr=attr, value=value)) if attr in SEARCHES:
            return [value, *node.args]
        case _:
            return []


def test_decisions_by_words_are_found() -> None:
    found = """
def f():
    try: ...
    except ValueError as error:
        if "no partition" in str(error): ...
        if str(error).lower().startswith("no"): ...
        if PATTERN.search(error.text): ...
        if error.args[0] == "a": ...
        if error.sqlstate == "23514": ...
        log(str(error))
def g(closed: AmqpClosed): return "exclusive use" in closed.text
"""
    assert sorted(set(_decisions(ast.parse(found)))) == [5, 6, 7, 8, 11]


def test_no_decision_rests_on_the_words_of_an_error() -> None:
    found = {
        f"{file.relative_to(PACKAGE)}": sorted(set(lines))
        for file in sorted(PACKAGE.rglob("*.py"))
        if (lines := list(_decisions(ast.parse(file.read_text()))))
    }
    assert {name: lines for name, lines in found.items() if name not in KNOWN} == {}
    assert set(found) == KNOWN, "each known exception still exists"


def test_no_database_function_reads_the_words_of_an_error() -> None:
    for file in (ROOT / "migrations").rglob("*.sql"):
        text = file.read_text().upper()
        for word in ("SQLERRM", "MESSAGE_TEXT", "PG_EXCEPTION_"):
            assert word not in text, file
