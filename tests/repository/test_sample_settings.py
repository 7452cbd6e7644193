"""The sample settings: complete, valid, and with the defaults."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from inboxd.settings import (
    BreakerOverride,
    Broker,
    MessageSource,
    Queue,
    Relay,
    ScheduleOverride,
    Settings,
    Target,
    TopicOverride,
    TypeOverride,
    WebhookSource,
    load,
)
from inboxd.settings.contradictions import contradictions
from inboxd.settings.endpoints import Endpoint

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "config.example.toml"

# Sections with names given by the operator, and the names in the example.
NAMED: dict[str, tuple[str, type[BaseModel]]] = {
    "topics": ("rewards", TopicOverride),
    "queues": ("email", Queue),
    "types": ("user.status_updated", TypeOverride),
    "schedules": ("school.nightly_report", ScheduleOverride),
    "breakers": ("brevo", BreakerOverride),
    "endpoints": ("acme", Endpoint),
    "targets": ("bank", Target),
    "brokers": ("main", Broker),
    "relays": ("results", Relay),
    "inbound.webhooks": ("bank", WebhookSource),
    "inbound.messages": ("users", MessageSource),
}

# Settings that exclude others of the example: for another scheme, signature or kind of broker, or
# another form of the same.
ALTERNATIVES = {
    "inbound.webhooks": {"type_from", "type_prefix", "certificate", "options"},
    "inbound.messages": {
        *("nats_stream", "nats_subjects", "rabbitmq_queue", "rabbitmq_stream"),
        *("type_from", "type_prefix"),
    },
    "targets": {"hmac"},
    "brokers": {"password", "virtual_host", "options"},
    "relays": {"exchange"},
    "admin": {"oidc", "proxy"},
}


def fields() -> Iterator[tuple[str, str, Any]]:
    """Yield (section, key, field) of every setting."""
    for section, outer in Settings.model_fields.items():
        model = NAMED[section][1] if section in NAMED else outer.annotation
        assert isinstance(model, type)
        assert issubclass(model, BaseModel)
        for name, field in model.model_fields.items():
            if section in ("inbound", "outbound"):
                inner = f"{section}.{name}"
                one: Any = NAMED[inner][1] if inner in NAMED else field.annotation
                yield from ((inner, key, each) for key, each in one.model_fields.items())
            else:
                yield section, field.alias or name, field


def uncommented() -> dict[str, Any]:
    # In the example, prose has a space after "#", a setting has none, a directive has a colon.
    return tomllib.loads(re.sub(r"(?m)^#(?=[^\s:])", "", EXAMPLE.read_text(encoding="utf-8")))


def by_section(tree: dict[str, Any]) -> dict[str, Any]:
    """The tables of a file; those of `[inbound]` and `[outbound]` each under its own name."""
    nested = {outer: tree.pop(outer) for outer in ("inbound", "outbound")}
    inner = {f"{o}.{name}": table for o, tables in nested.items() for name, table in tables.items()}
    return {**tree, **inner}


def test_unchanged_example_has_the_defaults() -> None:
    assert load(EXAMPLE, {}).model_dump() == load(None, {}).model_dump()


def test_example_shows_every_setting_and_no_other() -> None:
    shown = by_section(uncommented())
    for section, (name, _) in NAMED.items():
        assert list(shown[section]) == [name]
        shown[section] = shown[section][name]
    assert {(section, key) for section, keys in shown.items() for key in keys} == {
        (section, key) for section, key, _ in fields()
    }


def test_example_is_valid_with_every_line_active() -> None:
    shown = uncommented()
    for section, keys in ALTERNATIVES.items():
        table: Any = shown
        for part in (*section.split("."), *NAMED.get(section, ())[:1]):
            table = table[part]
        for key in keys:
            del table[key]
    shown["targets"]["bank"]["keys"][0]["secret"] = "the secret of the file"
    assert [*contradictions(Settings(**shown))] == []


def test_every_setting_of_the_example_is_commented_out() -> None:
    active = tomllib.loads(EXAMPLE.read_text(encoding="utf-8"))
    assert not any(by_section(active).values()), "every setting is commented out"


def test_setting_without_a_default_is_marked_as_an_example() -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    shown = by_section(uncommented())
    defaults = by_section(Settings().model_dump(mode="json", by_alias=True))
    for section, key, field in fields():
        if section in NAMED or (section, key) == ("dedup", "sources"):
            continue
        (line,) = re.findall(rf"(?ms)^\[{re.escape(section)}\]$.*?^(#{key} = .*?)$", text)
        constant = field.default is not None and field.default_factory is None
        assert line.endswith("  # an example") != constant, key
        if constant:
            outer, _, inner = section.partition(".")
            one = {key: shown[section][key]}
            own = Settings.model_validate({outer: {inner: one} if inner else one})
            dumped = by_section(own.model_dump(mode="json", by_alias=True))
            assert dumped[section][key] == defaults[section][key]
