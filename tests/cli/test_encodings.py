"""Output in limited encodings: a terminal keeps its columns, a pipe its data."""

import io
import json
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from inboxd.cli.output import Document, json_text, print_json, print_parts, say


class Stream(io.TextIOWrapper):
    """An output with an encoding, to a terminal or to a pipe."""

    def __init__(self, encoding: str, *, terminal: bool) -> None:
        super().__init__(io.BytesIO(), encoding)
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    def text(self) -> str:
        self.flush()
        self.seek(0)
        return self.read()


@pytest.mark.parametrize(
    ("encoding", "terminal", "shown"),
    [
        ("utf-8", True, "├─ é 猫 …\n"),
        ("ascii", True, "+- ? ? .\n"),
        ("latin-1", True, "+- é ? .\n"),
        ("ascii", False, "+- \\xe9 \\u732b .\n"),
    ],
)
def test_text_in_limited_encodings(
    monkeypatch: pytest.MonkeyPatch, encoding: str, shown: str, *, terminal: bool
) -> None:
    stream = Stream(encoding, terminal=terminal)
    monkeypatch.setattr(sys, "stdout", stream)
    say("├─ é 猫 …")
    assert stream.text() == shown


def test_output_without_an_encoding_takes_all_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    say("├─ é")
    assert stream.getvalue() == "├─ é\n"


@pytest.mark.parametrize("value", ["é", "猫", "\N{CAT FACE}", {"né": ["│", 1]}])
@pytest.mark.parametrize("terminal", [True, False])
def test_json_in_limited_encodings_is_the_same_document(
    monkeypatch: pytest.MonkeyPatch, value: object, *, terminal: bool
) -> None:
    stream = Stream("ascii", terminal=terminal)
    monkeypatch.setattr(sys, "stdout", stream)
    print_json(value)
    print_parts([Document("payload", value)])
    document, rest = stream.text().split("\npayload:\n")
    assert [json.loads(document), json.loads(rest)] == [value, value]


@pytest.mark.parametrize("terminal", [True, False])
def test_json_has_no_control_characters(monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> None:
    """JSON allows DEL, C1 and Unicode line ends, which act on terminals as ESC does."""
    value = {"\x9b31m": ["\x1b[2J", "\x7f", "\u202e\u2066", "\x85\u2028", "\U000e0041", "é猫"]}
    stream = Stream("utf-8", terminal=terminal)
    monkeypatch.setattr(sys, "stdout", stream)
    print_json(value)
    print_parts([Document("payload", value)])
    written = stream.text()
    assert [c for c in set(written) if not c.isprintable()] == ["\n"]
    assert "é猫" in written
    document, rest = written.split("\npayload:\n")
    assert [json.loads(document), json.loads(rest)] == [value, value]


def _nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_deep_payload_keeps_the_format_of_times() -> None:
    at = datetime(2026, 1, 31, 8, tzinfo=UTC)
    plain = json.loads(json_text({"at": at, "took": timedelta(seconds=2)}))
    deep = json.loads(json_text({"at": at, "took": timedelta(seconds=2), "payload": _nested(300)}))
    assert {name: deep[name] for name in plain} == plain == {"at": at.isoformat(), "took": 2.0}
