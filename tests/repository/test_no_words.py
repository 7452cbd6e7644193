"""No decision rests on the words of an error: they are in the language of a server or a system.

Known limit: what is found are an error's text, or a field of it that holds words, in a comparison,
a search or a match; one that has gone through a name of its own first is not.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import inboxd

ROOT = Path(__file__).parents[2]
PACKAGE = Path(inboxd.__file__).parent
# Attributes that hold what somebody else wrote for people.
WORDS = {"args", "context", "detail", "hint", "message", "reply_text", "strerror", "text"}
SEARCHES = {"match", "search", "fullmatch", "findall", "startswith", "endswith", "index", "find"}
# Where there is nothing else, each with the reason beside it in the code.
KNOWN = {
    # The protocol of NATS has no numbers for errors: words are part of it.
    "brokers/nats/connection.py",
    # asyncio's own words around several numbers, which are shown.
    "brokers/causes.py",
    # A place and a table's name among words, in whatever order.
    "store/emitted.py",
}


def _caught(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """The name of each error that is caught or given, and where it is known by it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name, node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for each in (*node.args.args, *node.args.kwonlyargs):
                about = "" if each.annotation is None else ast.unparse(each.annotation)
                if "Exception" in about or "Error" in about or "Closed" in about:
                    yield each.arg, node


def _is_text_of(node: ast.AST, error: str) -> bool:
    """Whether an expression is, or is made of, what an error says."""
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
    """The lines in which something is decided by what an error says."""
    for error, where in _caught(tree):
        for node in ast.walk(where):
            if isinstance(node, ast.expr) and any(
                _is_text_of(each, error) for each in _asked(node)
            ):
                yield node.lineno


def _asked(node: ast.expr) -> list[ast.expr]:
    """What an expression compares or searches."""
    match node:
        case ast.Compare():
            return [node.left, *node.comparators]
        case ast.Call(func=ast.Attribute(attr=attr, value=value)) if attr in SEARCHES:
            return [value, *node.args]
        case _:
            return []


def test_it_finds_what_it_looks_for() -> None:
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


def test_nothing_is_decided_by_what_an_error_says() -> None:
    found = {
        f"{file.relative_to(PACKAGE)}": sorted(set(lines))
        for file in sorted(PACKAGE.rglob("*.py"))
        if (lines := list(_decisions(ast.parse(file.read_text()))))
    }
    assert {name: lines for name, lines in found.items() if name not in KNOWN} == {}
    assert set(found) == KNOWN, "what is known is there still"


def test_no_function_of_the_database_asks_what_an_error_says() -> None:
    for file in (ROOT / "migrations").rglob("*.sql"):
        text = file.read_text().upper()
        for word in ("SQLERRM", "MESSAGE_TEXT", "PG_EXCEPTION_"):
            assert word not in text, file
