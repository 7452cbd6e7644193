"""The schema of the settings file for editors agrees with the settings."""

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from inboxd.settings import Settings
from inboxd.settings.json_schema import json_schema

ROOT = Path(__file__).parents[3]
SCHEMA = json_schema()


def mistakes(toml: str) -> list[str]:
    """The paths that an editor would underline."""
    validator = jsonschema.Draft7Validator(SCHEMA)
    found = validator.iter_errors(tomllib.loads(toml))
    return sorted(".".join(map(str, each.absolute_path)) for each in found)


def fields(schema: dict[str, Any], above: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every setting as (path, schema)."""
    for name, field in schema.get("properties", {}).items():
        key = f"{above}{name}"
        inner = field.get("additionalProperties")
        if isinstance(inner, dict) and "properties" in inner:
            yield from fields(inner, f"{key}.*.")
        elif "properties" in field and name != "retry":
            yield from fields(field, f"{key}.")
        elif above:
            yield key, field


def test_schema_is_valid_and_without_references() -> None:
    """Editors read different drafts: the schema is valid in two of them."""
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    text = json.dumps(SCHEMA)
    assert "$ref" not in text
    assert '"null"' not in text


def test_schema_describes_every_setting_of_every_section() -> None:
    assert list(SCHEMA["properties"]) == list(Settings.model_fields)
    found = dict(fields(SCHEMA))
    assert len(found) > 80
    assert [key for key, field in found.items() if not field.get("description")] == []


def test_each_default_is_valid() -> None:
    found = {key: field for key, field in fields(SCHEMA) if "default" in field}
    assert found["worker.lease"]["default"] == "30s"
    assert found["events.page_bytes"]["default"] == "32MiB"
    assert found["database.schema"]["default"] == "inboxd"
    assert "worker.name" not in found, "its default is the host's name"
    for key, field in found.items():
        assert jsonschema.Draft7Validator(field).is_valid(field["default"]), key


def test_example_is_valid_with_every_line_active() -> None:
    text = (ROOT / "config.example.toml").read_text()
    assert mistakes(text) == []
    assert mistakes(re.sub(r"(?m)^#(?=[^\s:])", "", text)) == []


@pytest.mark.parametrize(
    ("toml", "where"),
    [
        ("worker.lease = 30", "worker.lease"),
        ('worker.lease = "30"', "worker.lease"),
        ("worker.leas = 1", "worker"),
        ("wroker = {}", ""),
        ("events.page_rows = 0", "events.page_rows"),
        ('events.unhandled = "drop"', "events.unhandled"),
        ('events.page_bytes = "32MB"', "events.page_bytes"),
        ('queues.email.rate = "10 a second"', "queues.email.rate"),
        ('topics.rewards.mode = "serial"', "topics.rewards.mode"),
        ('types."a.b".retention = "week"', "types.a.b.retention"),
        ('types."a.b".retry.base = 2', "types.a.b.retry.base"),
        ('schedules.nightly.missed = "never"', "schedules.nightly.missed"),
        ('history.events = "always"', "history.events"),
        ("log.rows = 1", "log.rows"),
    ],
)
def test_a_mistake_is_underlined_where_it_is(toml: str, where: str) -> None:
    assert mistakes(toml) == [where]


def test_removals_and_other_spellings_are_valid() -> None:
    right = """
    worker.queues = "email, reports"
    worker.lease = "1m 30s"
    history = { events = "forever", commands = "90d" }
    events.page_bytes = 1000
    topics.rewards = { cron = "", count = "", expect = [] }
    topics.daily = { mode = "batch", expect = 3, retry = { kind = "explicit", delays = ["1s"] } }
    dedup.sources.bank.window = "90d"
    """
    assert mistakes(right) == []


def test_first_line_of_the_sample_names_the_schema() -> None:
    first = (ROOT / "config.example.toml").read_text().splitlines()[0]
    assert first == "#:schema ./config.schema.json"
