"""JSON pointers, by the examples of RFC 6901."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inboxd.errors import UsageError
from inboxd.inbound.pointer import MISSING, compile_pointer, steps

# The document of the RFC's section 5.
_DOCUMENT: dict[str, Any] = {
    "foo": ["bar", "baz"],
    "": 0,
    "a/b": 1,
    "c%d": 2,
    "e^f": 3,
    "g|h": 4,
    "i\\j": 5,
    'k"l': 6,
    " ": 7,
    "m~n": 8,
}


@pytest.mark.parametrize(
    ("pointer", "found"),
    [
        ("", _DOCUMENT),
        ("/foo", ["bar", "baz"]),
        ("/foo/0", "bar"),
        ("/", 0),
        ("/a~1b", 1),
        ("/c%d", 2),
        ("/e^f", 3),
        ("/g|h", 4),
        ("/i\\j", 5),
        ('/k"l', 6),
        ("/ ", 7),
        ("/m~0n", 8),
    ],
)
def test_the_examples_of_the_rfc(pointer: str, found: object) -> None:
    assert compile_pointer(pointer)(_DOCUMENT) == found


@pytest.mark.parametrize(
    "pointer",
    ["/no", "/foo/2", "/foo/-", "/foo/-1", "/foo/00", "/foo/01", "/foo/+1", "/foo/ 1", "/foo/1.0",
     "/foo/\u0661", "/foo/" + "9" * 5000, "/foo/bar", "/foo/0/x", "//x", "/a/b"],
)  # fmt: skip
def test_a_pointer_without_a_value_is_missing(pointer: str) -> None:
    assert compile_pointer(pointer)(_DOCUMENT) is MISSING


def test_null_is_not_missing() -> None:
    assert compile_pointer("/a")({"a": None}) is None


@pytest.mark.parametrize("document", [None, 1, "text", True, [], {}])
def test_a_pointer_works_on_any_document(document: object) -> None:
    assert compile_pointer("/a")(document) is MISSING
    assert compile_pointer("/a/b")(document) is MISSING
    assert compile_pointer("")(document) is document


@pytest.mark.parametrize("pointer", ["a", "a/b", "/a~", "/a~2b", "#/a", " /a"])
def test_an_invalid_pointer_is_refused_with_an_example(pointer: str) -> None:
    with pytest.raises(UsageError, match="is not a JSON pointer"):
        compile_pointer(pointer)


@given(st.lists(st.text(), min_size=1, max_size=5), st.integers())
def test_a_pointer_can_name_any_member(names: list[str], value: int) -> None:
    document: object = value
    for name in reversed(names):
        document = {name: document}
    pointer = "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in names)
    assert steps(pointer) == tuple(names)
    assert compile_pointer(pointer)(document) == value
