"""Drafts, options and pages are held to the description of columns."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from inboxd.api.drafts import CommandDraft, EventDraft
from inboxd.api.options import EmitOptions, SendAloneOptions, SendOptions
from inboxd.client.drafts import COMMANDS, EVENTS, Kind, NewCommand, NewEvent
from inboxd.model.row_columns import (
    CommandFields,
    EventFields,
    columns_of,
    given,
    options_of,
)
from inboxd.testing.stored import StoredCommand, StoredEvent

PAGE = Path(__file__).parents[3] / "docs/producers.md"
# Columns that a handler's rows have from the handled row.
INHERITED = {"correlation_id", "causation_id", "traceparent"}
# Options that a member of a batch cannot have.
ALONE = {"unique_key", "on_conflict"}


@pytest.mark.parametrize(
    ("kind", "draft", "keywords"),
    [("event", NewEvent, EventFields), ("command", NewCommand, CommandFields)],
)
def test_producers_draft_has_the_described_fields(kind: str, draft: type, keywords: type) -> None:
    described = {column.name: column.default for column in given(kind)}
    found = {field.name: field.default for field in fields(draft) if field.name != "type"}
    described[{"event": "event_id", "command": "command_id"}[kind]] = None
    assert described.pop("type") is ...
    assert found == described
    assert get_type_hints(keywords).keys() == described.keys() - {"payload"}


@pytest.mark.parametrize("kind", [EVENTS, COMMANDS], ids=["event", "command"])
def test_client_sends_each_described_column(kind: Kind[Any]) -> None:
    of = "event" if kind is EVENTS else "command"
    sent = [column.field for column in kind.columns]
    assert sent[0] == f"{of}_id", "ids are completed first"
    assert {*sent, "payload"} | ({"headers"} if kind is EVENTS else set()) == {
        column.name for column in given(of)
    }


def test_handlers_options_are_the_described_ones() -> None:
    for kind, options in (("event", EmitOptions), ("command", SendAloneOptions)):
        given_ = get_type_hints(options).keys() - {"type", "delay"}
        assert given_ == options_of(kind).keys()
    assert get_type_hints(SendOptions).keys() - {"type", "delay"} == (
        options_of("command").keys() - ALONE
    )


@pytest.mark.parametrize(("kind", "draft"), [("event", EventDraft), ("command", CommandDraft)])
def test_handlers_draft_has_the_described_fields(kind: str, draft: type) -> None:
    described = {column.name for column in given(kind)} - INHERITED
    assert described <= set(draft._fields)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("kind", "stored"), [("event", StoredEvent), ("command", StoredCommand)])
def test_stored_row_has_the_described_columns(kind: str, stored: type) -> None:
    missing = set(columns_of(kind)) - get_type_hints(stored).keys()
    assert missing == {"traceparent"}


def test_page_of_producers_describes_each_argument() -> None:
    table = PAGE.read_text().partition("| argument or column |")[2].partition("\n\n")[0]
    told = {"event": set[str](), "command": set[str]()}
    for names, of in re.findall(r"^\| (`[^|]+) \| ([^|]+) \|", table, re.MULTILINE):
        for name in re.findall(r"`(\w+)`", names):
            kinds = {
                "events": ["event"],
                "commands": ["command"],
                "each": [name.removesuffix("_id")],
            }.get(of, ["event", "command"])
            for kind in ["event"] if name == "source" else kinds:
                told[kind].add(name)
    for kind in ("event", "command"):
        assert told[kind] == {column.name for column in given(kind)}
