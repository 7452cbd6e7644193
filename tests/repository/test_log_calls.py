"""Every log line of the daemon is rendered in both formats, with any values of its fields.

The calls are found in the source: a new call is checked without further work.
"""

import ast
import io
import json
import logging
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NamedTuple
from uuid import UUID

import pytest

from inboxd.telemetry import logs

ROOM = Path(logs.__file__).parents[1]
LEVELS = {"debug", "info", "warning", "error", "critical"}
# Reserved by the library: a field of such a name would be lost.
TAKEN = {
    *("event", "message", "exc_info", "stack_info", "stack", "stacklevel", "positional_args"),
    *("logger", "logger_name", "level", "timestamp", "worker", "_record", "_from_structlog"),
}
VALUES: tuple[object, ...] = (
    *("a text", "two\nlines", 7, 1.5, None, True, UUID(int=7), datetime(2030, 1, 1, tzinfo=UTC)),
    *(["a list", 1], ("a tuple",), {"a": "dict"}, frozenset({"set"}), ValueError("an error")),
)


class LogCall(NamedTuple):
    """A call of a logger in the source."""

    place: str
    fields: tuple[str, ...]


def _loggers(tree: ast.Module) -> set[str]:
    """Names in a module that are loggers."""
    return {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func).rpartition(".")[2] == "get_logger"
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _methods(node: ast.AST, loggers: set[str]) -> list[ast.Attribute]:
    """Attributes such as `_log.info` in an expression."""
    return [
        each
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute)
        and each.attr in LEVELS
        and isinstance(each.value, ast.Name)
        and each.value.id in loggers
    ]


def _calls(file: Path) -> Iterator[LogCall]:
    tree = ast.parse(file.read_text())
    loggers = _loggers(tree)
    # Methods that are chosen first, and called by another name: `say = _log.error if dead …`.
    chosen = {
        name.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and _methods(node.value, loggers)
        for target in node.targets
        for name in ast.walk(target)
        if isinstance(name, ast.Name)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        by_name = isinstance(node.func, ast.Name) and node.func.id in chosen
        # A method that is passed to a function, which calls it: `_tell(_rows.info, …)`.
        given = bool(node.args) and bool(_methods(node.args[0], loggers))
        if by_name or given or _methods(node.func, loggers):
            fields = tuple(each.arg for each in node.keywords if each.arg is not None)
            yield LogCall(f"{file.relative_to(ROOM)}:{node.lineno}", fields)


@pytest.fixture(scope="module")
def calls() -> list[LogCall]:
    """All log calls of the package. Parsing takes seconds: a fixture parses only when needed."""
    return [call for file in sorted(ROOM.rglob("*.py")) for call in _calls(file)]


@pytest.fixture(params=["json", "console"])
def rendered(request: pytest.FixtureRequest) -> tuple[str, io.StringIO]:
    """The format, and the stream of its output."""
    logging.getLogger().handlers[:] = []  # pytest's, which `configure` would close
    text = io.StringIO()
    style: Literal["json", "console"] = request.param
    logs.configure("debug", style, worker="w1", stream=text)
    return style, text


def _render(fields: Mapping[str, object], rendered: tuple[str, io.StringIO]) -> str:
    """The line of a call with these fields. Python's logging prints errors and continues."""
    _, text = rendered
    text.seek(0)
    text.truncate()
    with pytest.MonkeyPatch.context() as patch:
        told = io.StringIO()
        patch.setattr("sys.stderr", told)
        logs.get_logger("inboxd.test").warning("what happened", **fields)
        assert not told.getvalue(), told.getvalue()
    return text.getvalue()


def test_the_calls_are_found(calls: list[LogCall]) -> None:
    assert len(calls) > 60
    fields = {field for call in calls for field in call.fields}
    assert fields >= {"frames", "attempt", "first_event", "dead_letters", "types"}


def test_no_field_has_a_reserved_name_of_the_library(calls: list[LogCall]) -> None:
    wrong = [call for call in calls if TAKEN & set(call.fields)]
    assert not wrong


def test_every_line_is_rendered_with_any_values(
    calls: list[LogCall], rendered: tuple[str, io.StringIO]
) -> None:
    for fields in sorted({call.fields for call in calls}):
        for value in VALUES:
            line = _render(dict.fromkeys(fields, value), rendered)
            if rendered[0] == "json":
                assert set(fields) <= json.loads(line).keys()
            else:
                assert line.count("\n") >= 1
                assert all(f"{field}=" in line for field in fields), line


@pytest.mark.parametrize("field", ["stack", "exception", "level", "logger", "timestamp", "worker"])
def test_fields_of_handlers_with_reserved_names_are_rendered(
    field: str, rendered: tuple[str, io.StringIO]
) -> None:
    for value in VALUES:
        assert "what happened" in _render({field: value}, rendered)
