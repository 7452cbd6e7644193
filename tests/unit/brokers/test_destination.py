"""The destination of a relay: filled in from an event, or refused."""

from typing import Any

import pytest

from inboxd.brokers.destination import compile_destination
from inboxd.errors import MessageRefused

EVENT = {
    "type": "matches.result",
    "schema_version": 1,
    "tenant": "acme",
    "entity_type": "match",
    "entity_id": "100 %s",
}


def made(template: str, **other: Any) -> str:
    return compile_destination(template).of({**EVENT, **other})


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{type}.v{version}", "matches.result.v1"),
        ("webhook.events.received.v{version}", "webhook.events.received.v1"),
        ("results", "results"),
        ("100%.{type}", "100%.matches.result"),
        ("{tenant}.{entity_type}.{entity_id}", "acme.match.100 %s"),
        ("{type}/{type}", "matches.result/matches.result"),
    ],
)
def test_placeholders_are_replaced_by_the_events_values(template: str, expected: str) -> None:
    assert made(template) == expected


def test_each_event_has_its_own_destination() -> None:
    destination = compile_destination("{type}.v{version}")
    events = [{**EVENT, "type": f"a{n % 300}", "schema_version": n % 7} for n in range(5000)]
    assert [destination.of(each) for each in events] == [
        f"a{n % 300}.v{n % 7}" for n in range(5000)
    ]


@pytest.mark.parametrize("value", [None, ""])
@pytest.mark.parametrize("name", ["tenant", "entity_type", "entity_id", "type"])
def test_an_event_without_a_value_is_refused_for_good(name: str, value: str | None) -> None:
    with pytest.raises(
        MessageRefused, match=f"the event has no {name}, which its destination"
    ) as e:
        made(f"x.{{{name}}}", **{name: value})
    assert e.value.for_good
