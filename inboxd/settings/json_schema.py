"""The JSON schema of the settings file, for editors: made from the models.

Owns what an editor needs besides pydantic's schema: defaults as the file writes them, no null (TOML
has none), no references (some editors follow none). Promises that the daemon refuses everything
that the schema refuses. Known limit: the schema cannot express contradictions, some ranges, and the
names that plugins declare; `inboxd check` finds these.
"""

from typing import Any

from pydantic import BaseModel, SecretStr

from inboxd.settings.breakers import BreakerOverride
from inboxd.settings.brokers import Broker, MessageSource, Relay
from inboxd.settings.endpoints import Endpoint
from inboxd.settings.inbound import WebhookSource
from inboxd.settings.outbound import Target
from inboxd.settings.overrides import (
    Queue,
    ScheduleOverride,
    TopicOverride,
    TypeOverride,
)
from inboxd.settings.sections import Settings

# The draft that editors for TOML support best.
_DRAFT = "http://json-schema.org/draft-07/schema#"
# Tables that the operator names.
_NAMED: dict[str, type[BaseModel]] = {
    "topics": TopicOverride,
    "queues": Queue,
    "types": TypeOverride,
    "schedules": ScheduleOverride,
    "breakers": BreakerOverride,
    "endpoints": Endpoint,
    "targets": Target,
    "brokers": Broker,
    "relays": Relay,
}
# The named tables of `[inbound]`.
_SOURCES: dict[str, type[BaseModel]] = {"webhooks": WebhookSource, "messages": MessageSource}
# An empty value removes what the plugin declares for a topic.
_NOTHING = {"enum": [""]}


def json_schema() -> dict[str, Any]:
    """The schema, as a JSON value."""
    raw = Settings.model_json_schema()
    whole = _plain(raw, raw["$defs"])
    sections = whole["properties"]
    for name, section in sections.items():
        own = section["additionalProperties"] if name in _NAMED else section
        own["additionalProperties"] = False
        default = _NAMED[name]() if name in _NAMED else getattr(Settings(), name)
        _set_defaults(own["properties"], default)
        if name in ("topics", "types"):
            own["properties"]["retry"] |= {"properties": _retry(sections["retry"])}
    for name, model in _SOURCES.items():
        source = sections["inbound"]["properties"][name]["additionalProperties"]
        _set_defaults(source["properties"], model())
    topic = sections["topics"]["additionalProperties"]["properties"]
    for key, field in topic.items():
        topic[key] = _or_nothing(field)
    return {
        "$schema": _DRAFT,
        "title": "Settings of inboxd",
        "description": "config.toml: docs/reference/settings.md describes the same settings.",
        "type": "object",
        "additionalProperties": False,
        "properties": sections,
    }


def _plain(node: Any, definitions: dict[str, Any]) -> Any:
    """Remove references, null, titles and pydantic's own form of defaults."""
    if isinstance(node, list):
        return [_plain(each, definitions) for each in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        target = definitions[node["$ref"].rpartition("/")[2]]
        return _plain({**target, **{k: v for k, v in node.items() if k != "$ref"}}, definitions)
    left = [each for each in node.get("anyOf", ()) if each != {"type": "null"}]
    if len(left) == 1:
        return _plain({**left[0], **{k: v for k, v in node.items() if k != "anyOf"}}, definitions)
    plain: dict[str, Any] = {}
    for key, value in node.items():
        if key == "properties":
            plain[key] = {name: _plain(each, definitions) for name, each in value.items()}
        elif key == "anyOf":
            plain[key] = [_plain(each, definitions) for each in left]
        elif key not in ("title", "default", "writeOnly", "$defs"):
            plain[key] = _plain(value, definitions)
    return plain


def _set_defaults(fields: dict[str, Any], default: BaseModel) -> None:
    """Set the defaults of a section, as the file writes them."""
    dumped = default.model_dump(mode="json", by_alias=True)
    for name, field in type(default).model_fields.items():
        key, value = field.alias or name, getattr(default, name)
        if isinstance(value, BaseModel):
            _set_defaults(fields[key]["properties"], value)
        elif isinstance(value, SecretStr):
            fields[key]["default"] = value.get_secret_value()
        elif field.default_factory is None and value is not None:
            fields[key]["default"] = dumped[key]


def _or_nothing(field: dict[str, Any]) -> dict[str, Any]:
    """Also allow an empty text; description and default stay outside the `anyOf`."""
    said: dict[str, Any] = {key: field[key] for key in ("description", "default") if key in field}
    own = {key: value for key, value in field.items() if key not in said}
    return {**said, "anyOf": [*own.get("anyOf", [own]), _NOTHING]}


def _retry(section: dict[str, Any]) -> dict[str, Any]:
    """The keys of a retry policy: the keys of `[retry]`, and further ones for handlers."""
    known = {
        key: {name: value for name, value in field.items() if name != "default"}
        for key, field in section["properties"].items()
    }
    wait = known["base"] | {}
    wait.pop("description", None)
    known["kind"] = {"enum": [*known["kind"]["enum"], "explicit"]}
    known["delays"] = {"type": "array", "items": wait, "description": "The waits, one by one."}
    known["max_age"] = {**wait, "description": "Age of the row after which no attempt begins."}
    return known
