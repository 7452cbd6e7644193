"""Texts of the screens: each is in each language, with the same placeholders."""

import ast
import re
import tomllib
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from string import Formatter
from typing import get_args

import pytest

from inboxd.admin.screens.navigation import GROUPS
from inboxd.admin.screens.rendering import LANGUAGES
from inboxd.model.story import RECEIPT
from inboxd.model.waiting import BRIEF, BRIEF_OF, TEXTS
from inboxd.operations.lookup import NAME_KINDS
from inboxd.store.finding import When
from inboxd.store.message_readers import ReaderState
from inboxd.store.operations import Audited

ADMIN = Path(__file__).parents[2] / "inboxd/admin"
SCREENS = ADMIN / "screens"
OTHERS = [language for language in LANGUAGES if language != "en"]
_SAID = re.compile(r"""say\(\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')\s*[,)]""")
_STATUS = re.compile(r"\bHTTPStatus\.([A-Z_]+)\b")
_CURVE = re.compile(r'\bCurve\("([^"]+)"')


def source_texts() -> Iterator[str]:
    """Texts that templates and modules of the screens contain."""
    for file in sorted([*SCREENS.glob("templates/*.html"), *SCREENS.glob("**/*.py")]):
        source = file.read_text("utf-8")
        yield from (found[1] or found[2] for found in _SAID.finditer(source))
        yield from (found[1] for found in _CURVE.finditer(source))
    for file in sorted(SCREENS.glob("actions/*.py")):
        yield from tell_texts(file)
    # Reasons why a row is not running.
    yield from (*TEXTS.values(), *BRIEF.values(), *BRIEF_OF.values())
    # Actions, in the audit.
    yield from get_args(Audited)
    # Kinds of what is found, states of streams, and the times that rows are selected by.
    yield from (*NAME_KINDS, RECEIPT, *get_args(ReaderState), *get_args(When))
    # Titles of refusals; the router and the server answer 405 and 408 by themselves.
    for file in ADMIN.glob("**/*.py"):
        for name in _STATUS.findall(file.read_text("utf-8")):
            if HTTPStatus[name] >= HTTPStatus.BAD_REQUEST:
                yield HTTPStatus[name].phrase
    yield from (HTTPStatus.METHOD_NOT_ALLOWED.phrase, HTTPStatus.REQUEST_TIMEOUT.phrase)
    for title, group in GROUPS:
        yield from (each for each in (title, *(link.title for link in group)) if each)


def tell_texts(file: Path) -> Iterator[str]:
    """First arguments of `tell` in a module of actions; adjacent literals are joined."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "tell"
        ):
            assert isinstance(node.args[0], ast.Constant), f"{file.name}:{node.lineno}"
            yield str(node.args[0].value)


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


@pytest.fixture(params=OTHERS)
def catalogue(request: pytest.FixtureRequest) -> dict[str, str]:
    texts: dict[str, str] = tomllib.loads(
        (SCREENS / f"texts/{request.param}.toml").read_text("utf-8")
    )
    return texts


def test_each_text_is_in_each_language(catalogue: dict[str, str]) -> None:
    found = set(source_texts())
    assert len(found) > 100
    assert found - catalogue.keys() == set()


def test_a_translation_has_the_same_placeholders(catalogue: dict[str, str]) -> None:
    assert {
        text: own for text, own in catalogue.items() if placeholders(text) != placeholders(own)
    } == {}
